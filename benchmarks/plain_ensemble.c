/* SAder-k as one would write it in C, on top of plain.c's projections; the yardstick of bench.py for ensembles.
   Compile with -DD=<dimension> -DSET=<0 l2 ball | 1 l1 ball> -DN=<experts>. */
#include "plain.c"

/* T rounds of N k-lazy experts with constant sigmas, harmonic or any other prior given by its logarithms. */
void ensemble(const double *g, long T, const double *p, const double *sigma, const long *k, const double *log_prior,
              double beta, double lambda, double *x, double *totals) {
    double point[N][D], anchor[N][D], g_sum[N][D], moved[N], losses[N], w[N], y[D], u[D], next[D], meta[D];
    double hitting = 0.0, switching = 0.0, step = 0.0;
    for (int e = 0; e < N; e++) {
        for (int i = 0; i < D; i++) point[e][i] = x[i];
        moved[e] = losses[e] = 0.0;
    }
    for (long t = 1; t <= T; t++, g += D) {
        double hit = 0.0, least = INFINITY, sum = 0.0, square = 0.0;
        for (int i = 0; i < D; i++) hit += g[i] * x[i];
        hitting += hit;
        switching += step;
        for (int e = 0; e < N; e++) {
            double dot = 0.0;
            for (int i = 0; i < D; i++) dot += g[i] * point[e][i];
            losses[e] += dot - hit + moved[e];
            if (losses[e] < least) least = losses[e];
        }
        for (int e = 0; e < N; e++) {
            w[e] = exp(log_prior[e] - beta * (losses[e] - least));
            sum += w[e];
        }
        for (int i = 0; i < D; i++) meta[i] = 0.0;
        for (int e = 0; e < N; e++) {
            if ((t - 1) % k[e] == 0)
                for (int i = 0; i < D; i++) {
                    anchor[e][i] = point[e][i];
                    g_sum[e][i] = g[i];
                }
            else
                for (int i = 0; i < D; i++) g_sum[e][i] += g[i];
            for (int i = 0; i < D; i++) y[i] = anchor[e][i] - g_sum[e][i] / sigma[e];
            project(y, p, u, next);
            double far = 0.0, weight = w[e] / sum;
            for (int i = 0; i < D; i++) {
                far += (next[i] - point[e][i]) * (next[i] - point[e][i]);
                point[e][i] = next[i];
                meta[i] += weight * next[i];
            }
            moved[e] = lambda * sqrt(far);
        }
        for (int i = 0; i < D; i++) {
            square += (meta[i] - x[i]) * (meta[i] - x[i]);
            x[i] = meta[i];
        }
        step = lambda * sqrt(square);
    }
    totals[0] = hitting;
    totals[1] = switching;
}
