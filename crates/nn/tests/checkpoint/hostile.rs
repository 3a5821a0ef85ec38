//! Files made to hurt: nothing is run, nothing grows beyond the file, nothing panics.

use fewstep_nn::checkpoint::{Options, Weights, inspect, load};
use fewstep_nn::dit::{Config, Layout, Tensor};

use crate::support::*;

/// Loads what must not load, raw weights and averaged, and returns the message.
fn refused(name: &str, bytes: &[u8]) -> String {
    let file = TestFile::new(name, bytes);
    let raw = Options {
        weights: Some(Weights::Raw),
        ..Options::default()
    };
    let error = load::<f32>(&file.path, &raw).unwrap_err().to_string();
    assert!(error.contains(name), "{error}");
    assert!(inspect(&file.path).failure.is_some());
    assert_modest();
    error
}

fn refused_pickle(pickle: &[u8]) -> String {
    refused("model.ckpt", &archive(pickle, &[]))
}

#[test]
fn calls_are_not_made() {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("trace");
    let command = format!("touch {}", trace.display());
    let mut attack = Pickler::new();
    attack
        .global("os", "system")
        .op(b"(")
        .text(&command)
        .op(b"tR.");
    refused_pickle(&attack.0);

    // In the place of a weight it is named.
    let run = Run::new();
    let mut pickle = Pickler::new();
    pickle.op(b"}(");
    for (name, spec) in &run.state[1..] {
        pickle.text(name).tensor(spec);
    }
    pickle.text(&run.state[0].0).global("os", "system");
    pickle.op(b"(").text(&command).op(b"tRu");
    let error = refused("model.ckpt", &archive(&pickle.end(), &run.storages));
    assert!(
        error.contains("vocab_embed.embedding: it is no tensor but a call of os.system"),
        "{error}"
    );
    // Anywhere else it is of no interest.
    let mut run = Run::new();
    let mut pickle = run.pickle();
    pickle.truncate(pickle.len() - 2);
    let mut pickle = Pickler(pickle);
    pickle.text("callbacks").global("os", "system");
    pickle.op(b"(").text(&command).op(b"tRu");
    run.average.clear();
    let file = TestFile::new("model.ckpt", &archive(&pickle.end(), &run.storages));
    assert!(load::<f32>(&file.path, &Options::default()).is_ok());
    assert!(!trace.exists());
}

#[test]
fn deep_cyclic_and_multiplied_values() {
    // A million lists in each other, opened and closed.
    let mut deep = vec![0x80, 2];
    deep.extend(vec![b']'; 1_000_000]);
    deep.extend(vec![b'a'; 999_999]);
    deep.push(b'.');
    refused_pickle(&deep);
    refused_pickle(&[&[0x80, 2][..], &vec![b'('; 1_000_000], b"."].concat());
    let mut tuples = vec![0x80, 2, b')'];
    tuples.extend(vec![0x85; 1_000_000]);
    tuples.push(b'.');
    refused_pickle(&tuples);

    // A dict that is its own state dict, settings and average.
    let mut cycle = Pickler::new();
    cycle.op(b"}q\0(");
    for key in ["state_dict", "hyper_parameters", "config", "model", "ema"] {
        cycle.text(key).op(b"h\0");
    }
    refused_pickle(&cycle.op(b"u").end());

    // Each of 200 lists holds the one before it ten times, as settings and as an average.
    let mut laughs = Pickler::new();
    laughs.op(b"]q\0");
    for level in 1..200u8 {
        laughs.op(&[b'0', b']', b'q', level, b'(']);
        for _ in 0..10 {
            laughs.op(&[b'h', level - 1]);
        }
        laughs.op(b"e");
    }
    laughs.op(b"0}(").text("hyper_parameters").op(&[b'h', 199]);
    laughs
        .text("ema")
        .op(b"}")
        .text("shadow_params")
        .op(&[b'h', 199]);
    refused_pickle(&laughs.op(b"su").end());

    // One long name under very many keys.
    let mut names = Pickler::new();
    names.text(&"x".repeat(100_000)).op(b"q\x000}q\x01(");
    for _ in 0..100_000 {
        names.op(b"h\0N");
    }
    refused_pickle(&names.op(b"u").end());
}

#[test]
fn malformed_pickles() {
    for pickle in [
        &b""[..],
        b".",
        b"\x80\x02",
        b"\x80\x09.",
        b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xff.",
        b"X\xff\xff\xff\xffa.",
        b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff.",
        b"\x8b\xff\xff\xff\x7f.",
        b"h\x00.",
        b"t.",
        b"a.",
        b"s.",
        b"u.",
        b"e.",
        b"R.",
        b"b.",
        b"o.",
        b"(o.",
        b"iq\nq\n.",
        b"0.",
        b"(0.",
        b"(N\x85.",
        b"NNb.",
        b"NNa.",
        b"}(Nu.",
        b"NQ.",
        b"I12x\n.",
        b"L12.",
        b"cos\nsystem",
        b"NN\x93.",
        b"\x97.",
        b"\x82\x01.",
        b"q\x00.",
    ] {
        refused_pickle(pickle);
    }
}

#[test]
fn tensors_that_leave_their_storage() {
    let name = "blocks.0.attn_out.weight";
    type Change = fn(&mut Run);
    let cases: [(&str, Change); 12] = [
        ("storage longer than its bytes", |run| {
            run.tensor("blocks.0.attn_out.weight").elements = 17;
        }),
        ("a huge storage", |run| {
            run.tensor("blocks.0.attn_out.weight").elements = i64::MAX;
        }),
        ("negative number of elements", |run| {
            run.tensor("blocks.0.attn_out.weight").elements = -1;
        }),
        ("offset", |run| {
            run.tensor("blocks.0.attn_out.weight").offset = 1
        }),
        ("huge offset", |run| {
            run.tensor("blocks.0.attn_out.weight").offset = i64::MAX;
        }),
        ("negative offset", |run| {
            run.tensor("blocks.0.attn_out.weight").offset = -1;
        }),
        ("strides", |run| {
            run.tensor("blocks.0.attn_out.weight").strides = vec![5, 1];
        }),
        ("negative strides", |run| {
            run.tensor("blocks.0.attn_out.weight").strides = vec![-4, 1];
        }),
        ("huge strides", |run| {
            run.tensor("blocks.0.attn_out.weight").strides = vec![i64::MAX, i64::MAX];
        }),
        ("too few strides", |run| {
            run.tensor("blocks.0.attn_out.weight").strides = vec![4];
        }),
        ("a missing storage", |run| {
            run.tensor("blocks.0.attn_out.weight").key = "../7".into();
        }),
        ("a short storage", |run| {
            let key = run.tensor("blocks.0.attn_out.weight").key.clone();
            let storage = run.storages.iter_mut().find(|(k, _)| *k == key);
            storage.unwrap().1.pop();
        }),
    ];
    for (case, change) in cases {
        let mut run = Run::new();
        change(&mut run);
        let error = refused("model.ckpt", &run.archive());
        assert!(
            error.contains(&format!("unreadable backbone.{name}: ")),
            "{case}: {error}"
        );
        assert!(error.contains("1 of its tensors"), "{case}: {error}");
    }
}

#[test]
fn shapes_that_would_amplify() {
    let huge = 1 << 40;
    // One element seen as a terabyte; a product beyond 64 bits; a shape of very many axes.
    for (shape, strides) in [
        (vec![huge, 4], vec![0, 0]),
        (vec![i64::MAX, 4], vec![0, 0]),
        (vec![3, 4], vec![0, 0]),
        (vec![1; 5000], vec![1; 5000]),
    ] {
        let mut run = Run::new();
        run.storages[0].1.truncate(4);
        let spec = run.tensor("vocab_embed.embedding");
        (spec.shape, spec.strides, spec.elements) = (shape, strides, 1);
        refused("model.ckpt", &run.archive());
    }
    // A network of 40 MB whose tensors all are views of one storage of 64 kB.
    let wide = Config {
        width: 64,
        blocks: 200,
        ..tiny()
    };
    let view = |tensor: Tensor| {
        let mut spec = Spec::of("0", &tensor.shape);
        spec.elements = 16384;
        (tensor.name, spec)
    };
    let run = Run {
        state: Layout::new(&wide).tensors.into_iter().map(view).collect(),
        average: Vec::new(),
        storages: vec![("0".into(), vec![0; 4 * 16384])],
    };
    let error = refused("model.ckpt", &run.archive());
    assert!(error.contains("share their storage"), "{error}");
    // A block's number says nothing about how many there are.
    let mut far = Run::new();
    far.state
        .push(("blocks.18446744073709551615.x".into(), Spec::of(0, &[3, 4])));
    refused("model.ckpt", &far.archive());
    assert_modest();
}

#[test]
fn files_that_are_something_else() {
    refused("model.ckpt", b"");
    refused("model.ckpt", b"PK\x03\x04");
    refused("model.ckpt", b"not a zip at all");
    assert!(refused("model.safetensors", b"").contains("too short"));
    refused("model.safetensors", b"a text of more than eight bytes");
    let header = [&(1u64 << 60).to_le_bytes()[..], b"{}"].concat();
    assert!(refused("model.safetensors", &header).contains("header"));
    let old = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.";
    assert!(refused("model.pt", old).contains("before 1.6"));
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    zip.start_file("readme", zip::write::SimpleFileOptions::default())
        .unwrap();
    let other = zip.finish().unwrap().into_inner();
    assert!(refused("model.pt", &other).contains("no data.pkl"));

    let directory = tempfile::tempdir().unwrap();
    for path in [
        directory.path().to_owned(),
        directory.path().join("missing"),
    ] {
        let error = load::<f32>(&path, &Options::default())
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(path.to_str().unwrap()), "{error}");
        assert_eq!(inspect(&path).failure, Some(error));
    }
}
