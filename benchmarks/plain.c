/* k-lazyGD as one would write it in C, for one set and one dimension; the yardstick of bench.py.
   Compile with -DD=<dimension> -DSET=<0 l2 ball | 1 l1 ball | 2 box | 3 simplex>. */
#include <math.h>
#include <stdlib.h>

/* Michelot: the threshold of the positive part that sums to total. */
static double threshold(const double *u, double total) {
    double theta = -INFINITY;
    for (int count = -1;;) {
        double sum = 0.0;
        int active = 0;
        for (int i = 0; i < D; i++)
            if (u[i] > theta) {
                sum += u[i];
                active++;
            }
        if (active == count) return theta;
        theta = (sum - total) / active;
        count = active;
    }
}

static void project(const double *y, const double *p, double *u, double *x) {
#if SET == 0
    double square = 0.0;
    for (int i = 0; i < D; i++) square += (y[i] - p[1 + i]) * (y[i] - p[1 + i]);
    double norm = sqrt(square), scale = norm > p[0] ? p[0] / norm : 1.0;
    for (int i = 0; i < D; i++) x[i] = p[1 + i] + (y[i] - p[1 + i]) * scale;
#elif SET == 1
    double norm = 0.0;
    for (int i = 0; i < D; i++) {
        u[i] = fabs(y[i] - p[1 + i]);
        norm += u[i];
    }
    double theta = norm > p[0] ? threshold(u, p[0]) : 0.0;
    for (int i = 0; i < D; i++) {
        double z = y[i] - p[1 + i], size = fabs(z) - theta;
        x[i] = p[1 + i] + copysign(size > 0.0 ? size : 0.0, z);
    }
#elif SET == 2
    for (int i = 0; i < D; i++) {
        double z = y[i] < p[i] ? p[i] : y[i];
        x[i] = z > p[D + i] ? p[D + i] : z;
    }
#else
    double theta = threshold(y, p[0]);
    for (int i = 0; i < D; i++) {
        double z = y[i] - theta;
        x[i] = z > 0.0 ? z : 0.0;
    }
#endif
}

/* T rounds with sigma_t = sqrt(t / c) from the point x; totals gets the hitting and the movement cost. */
void play(const double *g, long T, const double *p, long k, double c, double *x, double *totals) {
#if D <= 1000
    double anchor[D], g_sum[D], y[D], u[D], next[D];
#else
    double *anchor = malloc(5 * D * sizeof(double)), *g_sum = anchor + D, *y = g_sum + D, *u = y + D, *next = u + D;
#endif
    double hitting = 0.0, switching = 0.0, moved = 0.0;
    for (long t = 1; t <= T; t++, g += D) {
        switching += moved;
        for (int i = 0; i < D; i++) hitting += g[i] * x[i];
        if ((t - 1) % k == 0)
            for (int i = 0; i < D; i++) {
                anchor[i] = x[i];
                g_sum[i] = g[i];
            }
        else
            for (int i = 0; i < D; i++) g_sum[i] += g[i];
        double sigma = sqrt(t / c), square = 0.0;
        for (int i = 0; i < D; i++) y[i] = anchor[i] - g_sum[i] / sigma;
        project(y, p, u, next);
        for (int i = 0; i < D; i++) {
            square += (next[i] - x[i]) * (next[i] - x[i]);
            x[i] = next[i];
        }
        moved = sqrt(square);
    }
    totals[0] = hitting;
    totals[1] = switching;
#if D > 1000
    free(anchor);
#endif
}

/* Read n numbers, as fast as the machine can: eight sums, so that no addition waits for another. */
double read_all(const double *g, long n) {
    double s[8] = {0};
    for (long i = 0; i + 8 <= n; i += 8)
        for (int j = 0; j < 8; j++) s[j] += g[i + j];
    return s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];
}
