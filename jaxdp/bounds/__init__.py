"""The papers' bounds on the error of protocols, with explicit constants."""

from ..factorization import central_lower_bound as central_lower_bound
from ..factorization import central_upper_bound as central_upper_bound
from ..factorization import local_lower_bound as local_lower_bound
from ..factorization import local_upper_bound as local_upper_bound
from ._adaptive import adaptive_max_error as adaptive_max_error
from ._adaptive import simple_adaptive_max_error as simple_adaptive_max_error
from ._learning import learning_lower_bound as learning_lower_bound
from ._learning import learning_upper_bound as learning_upper_bound
from ._linear import factorization_mse as factorization_mse
from ._linear import gaussian_queries_error as gaussian_queries_error
from ._linear import projected_hadamard_error as projected_hadamard_error
from ._linear import projection_mechanism_mse as projection_mechanism_mse
from ._linear import rejection_queries_error as rejection_queries_error
from ._u_statistics import lipschitz_quantization_error as lipschitz_quantization_error
from ._u_statistics import optimal_num_bins as optimal_num_bins
from ._u_statistics import quantized_u_statistic_mse as quantized_u_statistic_mse
from ._u_statistics import simple_u_statistic_variance as simple_u_statistic_variance
from ._u_statistics import smooth_quantization_error as smooth_quantization_error
from ._u_statistics import u_statistic_variance as u_statistic_variance
