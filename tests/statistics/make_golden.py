"""Prints the numbers that kvant/evaluate/statistics_test.cc expects, from scipy and statsmodels.

Run in a virtual environment with scipy and statsmodels (tests/requirements.txt).
"""

from scipy.stats import beta, binomtest, t
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

print("McNemar two-sided 9:1", binomtest(9, 10).pvalue)
print("McNemar loss 9:1", binomtest(9, 10, alternative="greater").pvalue)
print("McNemar loss 5:0", binomtest(5, 5, alternative="greater").pvalue)
print("sign tail 60 of 100", binomtest(60, 100, alternative="greater").pvalue)
for confidence, degrees in [(0.95, 1), (0.95, 5), (0.99, 30), (0.95, 1e9)]:
    print("t", confidence, degrees, t.ppf(1 - (1 - confidence) / 2, degrees))
print("Wilson 8 of 10", proportion_confint(8, 10, 0.05, "wilson"))
print("Clopper-Pearson upper, 2 of 20 at 95 %", beta.ppf(0.95, 3, 18))
print("Holm", multipletests([0.01, 0.04, 0.03, 0.005], 0.05, "holm")[0])
