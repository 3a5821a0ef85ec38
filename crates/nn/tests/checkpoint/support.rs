//! Files to test with: a tiny network, a writer of pickles and one of safetensors.

use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use fewstep_nn::dit::{Config, Layout, Positions, Sight, Step, TimeInput};
use tempfile::TempDir;
use zip::write::SimpleFileOptions;

/// The largest single allocation of all tests together.
static LARGEST: AtomicUsize = AtomicUsize::new(0);

struct Watched;

// SAFETY: everything is passed on to the system's allocator as it is.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, memory: Memory) -> *mut u8 {
        LARGEST.fetch_max(memory.size(), Ordering::Relaxed);
        unsafe { System.alloc(memory) }
    }
    unsafe fn dealloc(&self, at: *mut u8, memory: Memory) {
        unsafe { System.dealloc(at, memory) }
    }
    unsafe fn realloc(&self, at: *mut u8, memory: Memory, size: usize) -> *mut u8 {
        LARGEST.fetch_max(size, Ordering::Relaxed);
        unsafe { System.realloc(at, memory, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Watched = Watched;

/// No test file has a megabyte, so none may make us ask for many.
pub fn assert_modest() {
    let largest = LARGEST.load(Ordering::Relaxed);
    assert!(largest < 64 << 20, "{largest} bytes were allocated at once");
}

/// A network with as few parameters as one can have.
pub fn tiny() -> Config {
    Config {
        vocabulary: 3,
        length: 8,
        width: 4,
        blocks: 1,
        heads: 2,
        conditioning: 2,
        mask: Some(2),
        time: TimeInput::Zero,
        step: Step::None,
        sight: Sight::Whole,
        positions: Positions::Line,
    }
}

/// Element `i` of tensor `k`; exact in every precision.
pub fn value(k: usize, i: usize) -> f32 {
    ((7 * i + 13 * k) % 101) as f32 / 64.0 - 50.0 / 64.0
}

/// All parameters of a network by [`value`], times a power of two.
pub fn parameters(config: &Config, scale: f32) -> Vec<f32> {
    let tensors = Layout::new(config).tensors;
    let tensor = |k: usize, n: usize| (0..n).map(move |i| scale * value(k, i));
    let tensors = tensors.iter().enumerate();
    tensors
        .flat_map(|(k, t)| tensor(k, t.range.len()))
        .collect()
}

/// Little-endian bytes of singles.
pub fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// A file in a directory of its own.
pub struct TestFile {
    _directory: TempDir,
    pub path: PathBuf,
}

impl TestFile {
    pub fn new(name: &str, bytes: &[u8]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        Self {
            _directory: directory,
            path,
        }
    }

    pub fn beside(&self, name: &str, text: &str) {
        std::fs::write(self.path.with_file_name(name), text).unwrap();
    }
}

/// A tensor of a safetensors file.
pub struct Raw {
    pub name: String,
    pub dtype: &'static str,
    pub shape: Vec<usize>,
    pub data: Vec<u8>,
}

/// The tensors of a network, named as they are published.
pub fn raw_tensors(config: &Config) -> Vec<Raw> {
    let values = parameters(config, 1.0);
    let raw = |tensor: &fewstep_nn::dit::Tensor| Raw {
        name: format!("backbone.{}", tensor.name),
        dtype: "F32",
        shape: tensor.shape.clone(),
        data: bytes(&values[tensor.range.clone()]),
    };
    Layout::new(config).tensors.iter().map(raw).collect()
}

/// A safetensors file.
pub fn safetensors(tensors: &[Raw]) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    let mut at = 0;
    for tensor in tensors {
        let about = serde_json::json!({
            "dtype": tensor.dtype,
            "shape": tensor.shape,
            "data_offsets": [at, at + tensor.data.len()],
        });
        at += tensor.data.len();
        header.insert(tensor.name.clone(), about);
    }
    let header = serde_json::to_vec(&header).unwrap();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header);
    file.extend(tensors.iter().flat_map(|tensor| &tensor.data));
    file
}

/// Writes pickles of protocol 2, opcode by opcode.
#[derive(Clone)]
pub struct Pickler(pub Vec<u8>);

impl Pickler {
    pub fn new() -> Self {
        Self(vec![0x80, 2])
    }

    pub fn op(&mut self, opcodes: &[u8]) -> &mut Self {
        self.0.extend(opcodes);
        self
    }

    pub fn text(&mut self, text: &str) -> &mut Self {
        self.op(b"X").op(&(text.len() as u32).to_le_bytes());
        self.op(text.as_bytes())
    }

    pub fn int(&mut self, n: i64) -> &mut Self {
        self.op(&[0x8a, 8]).op(&n.to_le_bytes())
    }

    pub fn global(&mut self, module: &str, name: &str) -> &mut Self {
        self.op(format!("c{module}\n{name}\n").as_bytes())
    }

    pub fn tuple(&mut self, items: &[i64]) -> &mut Self {
        self.op(b"(");
        for &item in items {
            self.int(item);
        }
        self.op(b"t")
    }

    /// A tensor on storage `key` of `elements` elements.
    pub fn tensor(&mut self, spec: &Spec) -> &mut Self {
        self.global("torch._utils", "_rebuild_tensor_v2").op(b"((");
        self.text("storage").global("torch", spec.class);
        self.text(&spec.key).text("cpu").int(spec.elements);
        self.op(b"tQ").int(spec.offset);
        self.tuple(&spec.shape).tuple(&spec.strides);
        self.op(&[0x89]).global("collections", "OrderedDict");
        self.op(b")RtR")
    }

    pub fn end(&mut self) -> Vec<u8> {
        self.op(b".");
        self.0.clone()
    }
}

/// What a pickle says of a tensor.
#[derive(Clone)]
pub struct Spec {
    pub class: &'static str,
    pub key: String,
    pub elements: i64,
    pub offset: i64,
    pub shape: Vec<i64>,
    pub strides: Vec<i64>,
}

impl Spec {
    /// A contiguous tensor that is all of its storage.
    pub fn of(key: impl ToString, shape: &[usize]) -> Self {
        let shape: Vec<i64> = shape.iter().map(|&n| n as i64).collect();
        let strides = (0..shape.len()).map(|axis| shape[axis + 1..].iter().product());
        Self {
            class: "FloatStorage",
            key: key.to_string(),
            elements: shape.iter().product(),
            offset: 0,
            strides: strides.collect(),
            shape,
        }
    }
}

/// A checkpoint of a training run of [`tiny`], every part of which can be changed.
pub struct Run {
    /// Names and tensors of the state dict.
    pub state: Vec<(String, Spec)>,
    /// Tensors of the average.
    pub average: Vec<Spec>,
    /// Storages by key.
    pub storages: Vec<(String, Vec<u8>)>,
}

impl Run {
    pub fn new() -> Self {
        let config = tiny();
        let tensors = Layout::new(&config).tensors;
        let (raw, half) = (parameters(&config, 1.0), parameters(&config, 0.5));
        let (mut state, mut average, mut storages) = (Vec::new(), Vec::new(), Vec::new());
        for (k, tensor) in tensors.iter().enumerate() {
            let name = format!("backbone.{}", tensor.name);
            state.push((name, Spec::of(k, &tensor.shape)));
            storages.push((k.to_string(), bytes(&raw[tensor.range.clone()])));
            average.push(Spec::of(100 + k, &tensor.shape));
            storages.push(((100 + k).to_string(), bytes(&half[tensor.range.clone()])));
        }
        Self {
            state,
            average,
            storages,
        }
    }

    /// The tensor of the state dict with this bare name.
    pub fn tensor(&mut self, name: &str) -> &mut Spec {
        let name = format!("backbone.{name}");
        let found = self.state.iter_mut().find(|(n, _)| *n == name);
        &mut found.unwrap().1
    }

    pub fn pickle(&self) -> Vec<u8> {
        let mut pickle = Pickler::new();
        pickle.op(b"}(").text("state_dict");
        pickle.global("collections", "OrderedDict").op(b")R(");
        for (name, spec) in &self.state {
            pickle.text(name).tensor(spec);
        }
        pickle.op(b"u");
        pickle.text("hyper_parameters").op(b"}(").text("algo");
        pickle.op(b"}").text("name").text("mdlm").op(b"s");
        pickle.text("model_length").int(8);
        pickle.text("n_heads").int(2).op(b"u");
        if !self.average.is_empty() {
            pickle.text("ema").op(b"}(").text("num_updates").int(7);
            pickle.text("decay").op(b"G?\xe0\0\0\0\0\0\0");
            pickle.text("shadow_params").op(b"](");
            for spec in &self.average {
                pickle.tensor(spec);
            }
            pickle.op(b"eu");
        }
        pickle.op(b"u").end()
    }

    pub fn archive(&self) -> Vec<u8> {
        archive(&self.pickle(), &self.storages)
    }
}

/// A file of torch with a pickle and storages.
pub fn archive(pickle: &[u8], storages: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    zip.start_file("archive/data.pkl", stored).unwrap();
    zip.write_all(pickle).unwrap();
    for (key, bytes) in storages {
        zip.start_file(format!("archive/data/{key}"), stored)
            .unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// The file written by real torch.
pub fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/tiny.ckpt")
}
