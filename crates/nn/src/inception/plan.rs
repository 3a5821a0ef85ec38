//! The network as data: steps one after the other, and forks whose branches end side by side.

use std::ops::Range;

use crate::{
    Error,
    checkpoint::{Blueprint, Shapes},
    layers::{picture::Window, resample::Pool},
    layout::{Builder, Tensor},
};

/// The sizes of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Channels of its first layer, 32; all others are in proportion.
    pub first: usize,
    /// Classes of its head, if it has one; 1008.
    pub classes: Option<usize>,
}

/// A convolution, its norm and its ReLU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    pub window: Window,
    pub inputs: usize,
    pub outputs: usize,
    pub weight: Range<usize>,
    pub beta: Range<usize>,
    pub mean: Range<usize>,
    pub var: Range<usize>,
}

/// A step of the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Conv(Filter),
    Pool(Pool, Window),
    /// Branches from one state, their channels side by side.
    Fork(Vec<Vec<Step>>),
}

/// The network, and where its tensors lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub steps: Vec<Step>,
    /// `[classes, features]`.
    pub head: Option<Range<usize>>,
    pub features: usize,
    pub tensors: Vec<Tensor>,
}

const ONE: Window = Window::same(1, 1);
const MEAN: Step = Step::Pool(Pool::Mean, Window::same(3, 3));
const LARGEST: Step = Step::Pool(Pool::Largest, Window::same(3, 3));
const HALVE: Step = Step::Pool(Pool::Largest, Window::inside(3, 2));

impl Config {
    /// The published network, with or without its head.
    pub fn published(logits: bool) -> Self {
        Self {
            first: 32,
            classes: logits.then_some(1008),
        }
    }

    /// The config itself if a network can have these sizes.
    pub fn checked(self) -> Result<Self, Error> {
        let good = self.first >= 2 && self.first.is_multiple_of(2) && self.first <= 1024;
        if !good || self.classes.is_some_and(|n| !(1..=1 << 20).contains(&n)) {
            return Err(Error::Config(format!(
                "no Inception has the sizes {self:?}"
            )));
        }
        Ok(self)
    }

    pub(super) fn plan(&self) -> Plan {
        let mut drawing = Drawing {
            b: Builder::default(),
            unit: self.first / 2,
        };
        let steps = drawing.network();
        let features = 128 * drawing.unit;
        let mut b = drawing.b;
        let head = self.classes.map(|n| b.add("output.weight", &[n, features]));
        Plan {
            steps,
            head,
            features,
            tensors: b.tensors,
        }
    }
}

impl Blueprint for Config {
    const NAME: &'static str = "Inception";
    const MARK: &'static str = "layers.mixed_10.tower_mixed_conv.weight";

    /// The head's bias is not wanted.
    fn own(name: &str) -> Option<&str> {
        let name = name.strip_prefix("net.").unwrap_or(name);
        (name != "output.bias").then_some(name)
    }

    fn sizes(shapes: &Shapes) -> Result<Self, String> {
        let classes = shapes
            .any("output.")
            .then(|| shapes.axis("output.weight", 0));
        let config = Self {
            first: shapes.axis("layers.conv.weight", 0)?,
            classes: classes.transpose()?,
        };
        config.checked().map_err(|error| error.to_string())
    }

    fn tensors(&self) -> Vec<Tensor> {
        self.plan().tensors
    }

    fn describe(&self) -> String {
        let classes = self.classes.map(|n| format!("{n} logits"));
        format!(
            "{} features, {}",
            64 * self.first,
            classes.unwrap_or_else(|| "no head for logits".into())
        )
    }
}

/// Adds tensors as the network is written down. Channels count in units of 16.
struct Drawing {
    b: Builder,
    unit: usize,
}

/// A convolution: name, channels in units, window.
type Line<'a> = (&'a str, usize, Window);

impl Drawing {
    fn conv(&mut self, block: &str, inputs: &mut usize, (name, outputs, window): Line) -> Step {
        let (from, to) = (*inputs, outputs * self.unit);
        *inputs = to;
        let [height, width] = window.size;
        let mut add = |part: &str, shape: &[usize]| {
            let name = format!("layers.{block}{name}.{part}");
            self.b.add(name, shape)
        };
        Step::Conv(Filter {
            window,
            inputs: from,
            outputs: to,
            weight: add("weight", &[to, from, height, width]),
            beta: add("beta", &[to]),
            mean: add("mean", &[to]),
            var: add("var", &[to]),
        })
    }

    /// Convolutions one after the other.
    fn tower(&mut self, block: &str, mut inputs: usize, lines: &[Line]) -> Vec<Step> {
        let steps = lines
            .iter()
            .map(|&line| self.conv(block, &mut inputs, line));
        steps.collect()
    }

    fn network(&mut self) -> Vec<Step> {
        let three = Window::inside(3, 1);
        let mut inputs = 3;
        let mut steps = vec![
            self.conv("", &mut inputs, ("conv", 2, Window::inside(3, 2))),
            self.conv("", &mut inputs, ("conv_1", 2, three)),
            self.conv("", &mut inputs, ("conv_2", 4, Window::same(3, 3))),
            HALVE,
            self.conv("", &mut inputs, ("conv_3", 5, ONE)),
            self.conv("", &mut inputs, ("conv_4", 12, three)),
            HALVE,
        ];
        let u = self.unit;
        steps.push(self.small("mixed.", 12 * u, 2));
        steps.push(self.small("mixed_1.", 16 * u, 4));
        steps.push(self.small("mixed_2.", 18 * u, 4));
        steps.push(self.halving("mixed_3."));
        for (name, inner) in [
            ("mixed_4.", 8),
            ("mixed_5.", 10),
            ("mixed_6.", 10),
            ("mixed_7.", 12),
        ] {
            steps.push(self.long(name, inner));
        }
        steps.push(self.halving_long("mixed_8."));
        steps.push(self.wide("mixed_9.", 80 * u, MEAN));
        steps.push(self.wide("mixed_10.", 128 * u, LARGEST));
        steps
    }

    /// Windows of 1, 5 and twice 3.
    fn small(&mut self, block: &str, inputs: usize, pooled: usize) -> Step {
        let (five, three) = (Window::same(5, 5), Window::same(3, 3));
        let first = self.tower(block, inputs, &[("conv", 4, ONE)]);
        let second = self.tower(
            block,
            inputs,
            &[("tower.conv", 3, ONE), ("tower.conv_1", 4, five)],
        );
        let third = self.tower(
            block,
            inputs,
            &[
                ("tower_1.conv", 4, ONE),
                ("tower_1.conv_1", 6, three),
                ("tower_1.conv_2", 6, three),
            ],
        );
        let mut fourth = vec![MEAN];
        fourth.extend(self.tower(block, inputs, &[("tower_2.conv", pooled, ONE)]));
        Step::Fork(vec![first, second, third, fourth])
    }

    /// To half the size.
    fn halving(&mut self, block: &str) -> Step {
        let (inputs, half) = (18 * self.unit, Window::inside(3, 2));
        let first = self.tower(block, inputs, &[("conv", 24, half)]);
        let second = self.tower(
            block,
            inputs,
            &[
                ("tower.conv", 4, ONE),
                ("tower.conv_1", 6, Window::same(3, 3)),
                ("tower.conv_2", 6, half),
            ],
        );
        Step::Fork(vec![first, second, vec![HALVE]])
    }

    /// Windows of 1 x 7 and 7 x 1.
    fn long(&mut self, block: &str, inner: usize) -> Step {
        let (inputs, flat, high) = (48 * self.unit, Window::same(1, 7), Window::same(7, 1));
        let first = self.tower(block, inputs, &[("conv", 12, ONE)]);
        let second = self.tower(
            block,
            inputs,
            &[
                ("tower.conv", inner, ONE),
                ("tower.conv_1", inner, flat),
                ("tower.conv_2", 12, high),
            ],
        );
        let third = self.tower(
            block,
            inputs,
            &[
                ("tower_1.conv", inner, ONE),
                ("tower_1.conv_1", inner, high),
                ("tower_1.conv_2", inner, flat),
                ("tower_1.conv_3", inner, high),
                ("tower_1.conv_4", 12, flat),
            ],
        );
        let mut fourth = vec![MEAN];
        fourth.extend(self.tower(block, inputs, &[("tower_2.conv", 12, ONE)]));
        Step::Fork(vec![first, second, third, fourth])
    }

    /// To half the size, after long windows.
    fn halving_long(&mut self, block: &str) -> Step {
        let (inputs, half) = (48 * self.unit, Window::inside(3, 2));
        let first = self.tower(
            block,
            inputs,
            &[("tower.conv", 12, ONE), ("tower.conv_1", 20, half)],
        );
        let second = self.tower(
            block,
            inputs,
            &[
                ("tower_1.conv", 12, ONE),
                ("tower_1.conv_1", 12, Window::same(1, 7)),
                ("tower_1.conv_2", 12, Window::same(7, 1)),
                ("tower_1.conv_3", 12, half),
            ],
        );
        Step::Fork(vec![first, second, vec![HALVE]])
    }

    /// Branches that fork once more.
    fn wide(&mut self, block: &str, inputs: usize, pool: Step) -> Step {
        let (flat, high) = (Window::same(1, 3), Window::same(3, 1));
        let first = self.tower(block, inputs, &[("conv", 20, ONE)]);
        let inner = 24 * self.unit;
        let mut second = self.tower(block, inputs, &[("tower_conv", 24, ONE)]);
        second.push(Step::Fork(vec![
            self.tower(block, inner, &[("tower_mixed_conv", 24, flat)]),
            self.tower(block, inner, &[("tower_mixed_conv_1", 24, high)]),
        ]));
        let mut third = self.tower(
            block,
            inputs,
            &[
                ("tower_1_conv", 28, ONE),
                ("tower_1_conv_1", 24, Window::same(3, 3)),
            ],
        );
        third.push(Step::Fork(vec![
            self.tower(block, inner, &[("tower_1_mixed_conv", 24, flat)]),
            self.tower(block, inner, &[("tower_1_mixed_conv_1", 24, high)]),
        ]));
        let mut fourth = vec![pool];
        fourth.extend(self.tower(block, inputs, &[("tower_2_conv", 12, ONE)]));
        Step::Fork(vec![first, second, third, fourth])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many tensors and values as the published weights have.
    #[test]
    fn the_published_network_has_its_published_size() {
        let plan = Config::published(false).plan();
        let total: usize = plan.tensors.iter().map(|t| t.range.len()).sum();
        assert_eq!((plan.tensors.len(), total), (376, 21_802_784));
        let with = Config::published(true).plan();
        assert_eq!(with.head.map(|head| head.len()), Some(1008 * 2048));
    }
}
