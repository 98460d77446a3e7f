"""The papers' bounds on the error of protocols, with explicit constants."""

from ._u_statistics import lipschitz_quantization_error as lipschitz_quantization_error
from ._u_statistics import optimal_num_bins as optimal_num_bins
from ._u_statistics import quantized_u_statistic_mse as quantized_u_statistic_mse
from ._u_statistics import simple_u_statistic_variance as simple_u_statistic_variance
from ._u_statistics import smooth_quantization_error as smooth_quantization_error
from ._u_statistics import u_statistic_variance as u_statistic_variance
