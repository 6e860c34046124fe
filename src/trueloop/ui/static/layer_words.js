// What a statistic of layers shows, and what is healthy.

const TEXTS = {
  grad_norm: "The norm of each parameter's gradient. Rows that fade towards the input are vanishing gradients; a column that flares up is an exploding step.",
  update: "The length of one update, relative to the weights. About `1e-3` is usual; far less learns nothing, far more forgets.",
  activation_zeros: "The share of a layer's outputs that are exactly zero. A row at 1 is dead: it passes nothing on.",
  activation_std: "The spread of a layer's outputs. It should neither fade nor grow from layer to layer.",
  activation_mean: "The mean of a layer's outputs.",
};

export function text(statistic) {
  return TEXTS[statistic] ?? "";
}
