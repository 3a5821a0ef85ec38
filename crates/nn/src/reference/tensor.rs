//! From slices to tensors and back, the devices of this build, and the step between `[B, C]` and
//! `[N, C]`.

use burn::tensor::{Device, DeviceType, Element, Tensor, TensorData};

use crate::Real;

/// A tensor of the slice's own precision, row-major.
pub fn from_slice<T: Real + Element, const D: usize>(
    values: &[T],
    shape: [usize; D],
    device: &Device,
) -> Tensor<D> {
    let data = TensorData::new(values.to_vec(), shape);
    Tensor::from_data(data, (device, T::dtype()))
}

/// The values of a tensor, row-major whatever its layout in memory.
pub fn to_vec<T: Real + Element, const D: usize>(tensor: &Tensor<D>) -> Vec<T> {
    tensor.to_data_as::<T>().iter::<T>().collect()
}

/// Every device this build can use, by name: `cpu` always, then `cuda`, `cuda:1` and so on.
pub fn devices() -> Vec<(String, Device)> {
    let kinds = [
        ("cpu", DeviceType::Flex),
        #[cfg(feature = "cuda")]
        ("cuda", DeviceType::Cuda),
        #[cfg(feature = "rocm")]
        ("rocm", DeviceType::Rocm),
        #[cfg(feature = "metal")]
        ("metal", DeviceType::Metal),
        #[cfg(feature = "vulkan")]
        ("vulkan", DeviceType::Vulkan),
    ];
    let name = |kind: &str, i| match i {
        0 => kind.to_owned(),
        _ => format!("{kind}:{i}"),
    };
    kinds
        .into_iter()
        .flat_map(|(kind, filter)| {
            let found = Device::enumerate(filter).into_vec();
            found
                .into_iter()
                .enumerate()
                .map(move |(i, device)| (name(kind, i), device))
        })
        .collect()
}

/// `[B, C] -> [N, C]`: each sequence's row at all its positions.
pub fn spread(x: &Tensor<2>, rows: usize) -> Tensor<2> {
    let [b, c] = x.dims();
    let l = rows / b;
    x.clone()
        .reshape([b, 1, c])
        .expand([b, l, c])
        .reshape([rows, c])
}

/// `[N, C] -> [B, C]`: the sum over each sequence's positions, the transpose of [`spread`].
pub fn collect(x: &Tensor<2>, sequences: usize) -> Tensor<2> {
    let [n, c] = x.dims();
    x.clone()
        .reshape([sequences, n / sequences, c])
        .sum_dim(1)
        .reshape([sequences, c])
}

/// `[N, K C] -> K times [N, C]`, side by side.
pub fn chunks<const K: usize>(x: &Tensor<2>) -> [Tensor<2>; K] {
    let c = x.dims()[1] / K;
    std::array::from_fn(|i| x.clone().narrow(1, i * c, c))
}
