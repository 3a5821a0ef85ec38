//! GPT-2, which candle's models do not include: a small transformer on candle's operations, with
//! the tensor names of Hugging Face. It reads all positions of a sequence in one pass.

use candle_core::{D, Device, Tensor};
use candle_nn::{LayerNorm, Module, ops::softmax_last_dim};
use serde::Deserialize;

use super::{JudgeError, Reader, Seen, directory::Tensors, surprise::surprises};

/// Positions whose logits are there at once: with 50257 symbols a quarter of a megabyte each.
const ROWS: usize = 128;

/// What `config.json` says.
#[derive(Deserialize)]
pub(super) struct Config {
    n_embd: usize,
    n_layer: usize,
    n_head: usize,
    n_inner: Option<usize>,
    #[serde(alias = "n_ctx")]
    pub(super) n_positions: usize,
    pub(super) vocab_size: usize,
    #[serde(default = "epsilon")]
    layer_norm_epsilon: f64,
    #[serde(default = "gelu_new")]
    activation_function: String,
    #[serde(default = "yes")]
    tie_word_embeddings: bool,
    #[serde(default = "yes")]
    scale_attn_weights: bool,
    #[serde(default)]
    scale_attn_by_inverse_layer_idx: bool,
}

fn epsilon() -> f64 {
    1e-5
}

fn gelu_new() -> String {
    "gelu_new".into()
}

fn yes() -> bool {
    true
}

impl Config {
    /// Why such a network is not the one written here, if it is not.
    pub(super) fn unlike(&self) -> Option<String> {
        if !["gelu_new", "gelu_pytorch_tanh"].contains(&self.activation_function.as_str()) {
            return Some(format!(
                "its activation is {}; GPT-2's is gelu_new",
                self.activation_function
            ));
        }
        if !self.scale_attn_weights || self.scale_attn_by_inverse_layer_idx {
            return Some("it scales attention in another way than GPT-2".into());
        }
        if self.n_head == 0 || self.n_embd == 0 || !self.n_embd.is_multiple_of(self.n_head) {
            return Some(format!(
                "config.json divides a width of {} into {} heads",
                self.n_embd, self.n_head
            ));
        }
        None
    }
}

/// `x W + b`, with the weight stored as `[in, out]`.
struct Dense {
    weight: Tensor,
    bias: Tensor,
}

impl Dense {
    fn take(
        tensors: &mut Tensors,
        name: &str,
        ins: usize,
        outs: usize,
    ) -> Result<Self, JudgeError> {
        Ok(Self {
            weight: tensors.take(&format!("{name}.weight"), &[ins, outs])?,
            bias: tensors.take(&format!("{name}.bias"), &[outs])?,
        })
    }
}

impl Module for Dense {
    fn forward(&self, x: &Tensor) -> candle_core::Result<Tensor> {
        x.matmul(&self.weight)?.broadcast_add(&self.bias)
    }
}

struct Block {
    before_attention: LayerNorm,
    queries_keys_values: Dense,
    attention_out: Dense,
    before_mlp: LayerNorm,
    mlp_in: Dense,
    mlp_out: Dense,
}

/// GPT-2.
pub(super) struct Gpt2 {
    tokens: Tensor,
    positions: Tensor,
    blocks: Vec<Block>,
    last: LayerNorm,
    /// `[width, symbols]`.
    head: Tensor,
    heads: usize,
}

impl Gpt2 {
    /// Takes the network's tensors, whose names may begin with `transformer.` or not.
    pub(super) fn take(config: &Config, tensors: &mut Tensors) -> Result<Self, JudgeError> {
        let width = config.n_embd;
        let prefix = match tensors.has("wte.weight") {
            true => "",
            false => "transformer.",
        };
        let norm = |tensors: &mut Tensors, name: String| {
            let weight = tensors.take(&format!("{name}.weight"), &[width])?;
            let bias = tensors.take(&format!("{name}.bias"), &[width])?;
            Ok::<_, JudgeError>(LayerNorm::new(weight, bias, config.layer_norm_epsilon))
        };
        let embedding = [config.vocab_size, width];
        let tokens = tensors.take(&format!("{prefix}wte.weight"), &embedding)?;
        let place = [config.n_positions, width];
        let positions = tensors.take(&format!("{prefix}wpe.weight"), &place)?;
        let inner = config.n_inner.unwrap_or(4 * width);
        // No capacity: the number of layers is a claim until their tensors are found.
        let mut blocks = Vec::new();
        for layer in 0..config.n_layer {
            let name = |part: &str| format!("{prefix}h.{layer}.{part}");
            blocks.push(Block {
                before_attention: norm(tensors, name("ln_1"))?,
                queries_keys_values: Dense::take(tensors, &name("attn.c_attn"), width, 3 * width)?,
                attention_out: Dense::take(tensors, &name("attn.c_proj"), width, width)?,
                before_mlp: norm(tensors, name("ln_2"))?,
                mlp_in: Dense::take(tensors, &name("mlp.c_fc"), width, inner)?,
                mlp_out: Dense::take(tensors, &name("mlp.c_proj"), inner, width)?,
            });
        }
        let last = norm(tensors, format!("{prefix}ln_f"))?;
        let head = match config.tie_word_embeddings {
            true => tokens.t()?,
            false => tensors.take("lm_head.weight", &embedding)?.t()?,
        };
        Ok(Self {
            tokens,
            positions,
            blocks,
            last,
            head,
            heads: config.n_head,
        })
    }

    /// What goes into the head, `[positions, width]`.
    fn states(&self, x: &[u32]) -> candle_core::Result<Tensor> {
        let n = x.len();
        let causal: Vec<f32> = (0..n * n)
            .map(|i| {
                if i % n > i / n {
                    f32::NEG_INFINITY
                } else {
                    0.0
                }
            })
            .collect();
        let causal = Tensor::from_vec(causal, (1, n, n), &Device::Cpu)?;
        let ids = Tensor::new(x, &Device::Cpu)?;
        let mut x = (self.tokens.index_select(&ids, 0)? + self.positions.narrow(0, 0, n)?)?;
        for block in &self.blocks {
            let y = block.before_attention.forward(&x)?;
            let y = self.attend(&block.queries_keys_values.forward(&y)?, &causal)?;
            x = (x + block.attention_out.forward(&y)?)?;
            let y = block.mlp_in.forward(&block.before_mlp.forward(&x)?)?;
            // Candle's gelu is the one with tanh.
            x = (x + block.mlp_out.forward(&y.gelu()?)?)?;
        }
        self.last.forward(&x)
    }

    /// Attention of `[positions, 3 width]`.
    fn attend(&self, all: &Tensor, causal: &Tensor) -> candle_core::Result<Tensor> {
        let (n, width) = (all.dim(0)?, all.dim(1)? / 3);
        let size = width / self.heads;
        let part = |i: usize| {
            let part = all.narrow(D::Minus1, i * width, width)?;
            let part = part.reshape((n, self.heads, size))?;
            part.transpose(0, 1)?.contiguous()
        };
        let scores = (part(0)?.matmul(&part(1)?.t()?)? / (size as f64).sqrt())?;
        let weights = softmax_last_dim(&scores.broadcast_add(causal)?)?;
        let mixed = weights.matmul(&part(2)?)?;
        mixed.transpose(0, 1)?.reshape((n, width))
    }
}

impl Reader for Gpt2 {
    fn vocabulary(&self) -> usize {
        self.tokens.dims()[0]
    }

    /// A sequence fills the machine by itself.
    fn batch(&self) -> usize {
        1
    }

    fn surprise(&mut self, sequences: &[&[u32]], seen: Seen) -> Result<Vec<Vec<f64>>, JudgeError> {
        let mut found = Vec::new();
        for x in sequences {
            // The last token predicts nothing that is there.
            let states = self.states(&x[..x.len().max(2) - 1])?;
            let mut one = Vec::new();
            for (i, targets) in x[1..].chunks(ROWS).enumerate() {
                let rows = states.narrow(0, i * ROWS, targets.len())?;
                let logits = rows.matmul(&self.head)?.flatten_all()?.to_vec1::<f32>()?;
                let targets: Vec<Option<u32>> = targets.iter().copied().map(Some).collect();
                one.extend(surprises(&logits, &targets).into_iter().flatten());
                seen(targets.len())?;
            }
            found.push(one);
        }
        Ok(found)
    }
}
