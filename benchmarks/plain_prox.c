/* Reluctant as one would write it in C, for one set and one dimension; the yardstick of bench.py.
   Compile with -DD=<dimension> -DSET=<0 l2 ball, l2 | 1 box, l1 | 2 simplex, total variation>. */
#include <math.h>

#if SET == 0
/* From inside the ball the angle is bisected; that happens once. */
static double tangent_inside(double angle, double n, double price, double r, double rho) {
    double low = 0.0, high = fmin(angle, 1.5707963267948966);
    for (int turn = 0; turn < 100; turn++) {
        double theta = 0.5 * (low + high), half = 0.5 * (angle - theta);
        double far = hypot(r - rho, 2.0 * sqrt(r * rho) * sin(half));
        if (n * sin(theta) * far > price * rho * sin(2.0 * half)) high = theta;
        else low = theta;
    }
    return tan(0.25 * (low + high));
}

/* On the boundary 2 n T = price (c + s T) sqrt(1 + T^2) is solved by Newton's steps. */
static double tangent_outside(double cz, double sz, double n, double price) {
    double large = sqrt(0.5 + 0.5 * fabs(cz)), small = sz / (2.0 * large);
    double c = cz > 0.0 ? large : small, s = cz > 0.0 ? small : large, tau = cz > 0.0 ? s / large : 1.0;
    double root = sqrt(1.0 + tau * tau);
    if (2.0 * n - price * (s * root + (c + s * tau) * tau / root) <= 0.5 * n) tau = 0.0;
    for (int turn = 0; turn < 100; turn++) {
        double lean = c + s * tau;
        root = sqrt(1.0 + tau * tau);
        double change = (2.0 * n * tau - price * lean * root) / (2.0 * n - price * (s * root + lean * tau / root));
        tau -= change;
        if (fabs(change) <= 1e-9 * tau) break;
    }
    return tau;
}
#endif

static void move(const double *f, double price, const double *p, const double *x, double *next) {
    for (int i = 0; i < D; i++) next[i] = x[i];
#if SET == 0
    double square = 0.0, along = 0.0, across[D], height = 0.0;
    for (int i = 0; i < D; i++) square += f[i] * f[i];
    double n = sqrt(square), r = p[0];
    if (n <= price) return;
    for (int i = 0; i < D; i++) along -= (x[i] - p[1 + i]) * f[i] / n;
    for (int i = 0; i < D; i++) {
        across[i] = (x[i] - p[1 + i]) + along * f[i] / n;
        height += across[i] * across[i];
    }
    height = sqrt(height);
    double rho = sqrt(along * along + height * height);
    int outside = r - rho <= 1e-12 * r;
    if (outside && along >= 0.0 && n * height <= price * rho) return;
    double tau = outside ? tangent_outside(along / rho, height / rho, n, price)
                         : tangent_inside(atan2(height, along), n, price, r, rho);
    double ahead = r * (1.0 - tau * tau) / (1.0 + tau * tau), aside = r * 2.0 * tau / (1.0 + tau * tau);
    for (int i = 0; i < D; i++) next[i] = p[1 + i] - ahead * f[i] / n + (height > 0.0 ? aside * across[i] / height : 0.0);
#elif SET == 1
    for (int i = 0; i < D; i++) {
        if (f[i] + price < 0.0) next[i] = p[D + i];
        if (f[i] - price > 0.0) next[i] = p[i];
    }
#else
    int target = 0;
    double given = 0.0;
    for (int i = 1; i < D; i++)
        if (f[i] < f[target]) target = i;
    for (int i = 0; i < D; i++)
        if (f[i] - f[target] > price) {
            given += x[i];
            next[i] = 0.0;
        }
    next[target] += given;
#endif
}

/* T rounds from the point x with a window of 1 / a rounds; totals gets the hitting and the movement cost. */
void play(const double *g, long T, const double *p, double a, double price, double weight, double *x, double *totals) {
    double m1[D] = {0}, m2[D] = {0}, next[D], n1 = 0.0, n2 = 0.0, hit = 0.0, moved = 0.0, pending = 0.0;
    for (long t = 0; t < T; t++, g += D) {
        moved += weight * pending;
        n1 = (1.0 - a) * n1 + a;
        n2 += a * (n1 - n2);
        for (int i = 0; i < D; i++) {
            hit += g[i] * x[i];
            m1[i] = (1.0 - a) * m1[i] + a * g[i];
            m2[i] += a * (m1[i] - m2[i]);
        }
        move(m2, price * n2, p, x, next);
        pending = 0.0;
        for (int i = 0; i < D; i++) {
            double step = next[i] - x[i];
            pending += SET == 0 ? step * step : SET == 1 ? fabs(step) : 0.5 * fabs(step);
            x[i] = next[i];
        }
        if (SET == 0) pending = sqrt(pending);
    }
    totals[0] = hit;
    totals[1] = moved;
}
