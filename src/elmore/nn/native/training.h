// All training kernels. Included inside a namespace, with the instructions enabled that its vectors need.

#include "activations.h"
#include "tiles.h"
#include "row_pieces.h"
#include "character_cnn.h"
#include "products.h"
#include "character_cnn_backward.h"
#include "lstm_backward.h"
#include "highway.h"
#include "softmax.h"

inline constexpr TrainingKernel KERNEL = {run_lstm_backward, run_product, run_highway, pool_characters_backward,
                                          run_softmax};
