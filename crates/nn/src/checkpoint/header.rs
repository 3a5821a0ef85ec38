//! The header of a safetensors file.
//!
//! The length, then JSON with name, type, shape and place of each tensor, then the data. The
//! crate checks the JSON: no holes, no overlaps, sizes that fit the shapes, products that do not
//! overflow. Its own reader wants the whole file in memory and adds the sizes unchecked, so the
//! length of the header and the end of the data are compared with the file here, first.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use safetensors::tensor::Metadata;

use super::dtype::Dtype;
use super::error::plain;
use super::reader::{Blob, Place};
use super::stored::Stored;

/// A DiT's header has some ten kilobytes.
const LARGEST: u64 = 1 << 23;

/// Reads the header of a file of `bytes` bytes.
pub fn read(file: &mut File, bytes: u64) -> Result<Vec<Stored>, String> {
    let failed = |error: std::io::Error| error.to_string();
    if bytes < 8 {
        return Err("it is too short for a safetensors file".into());
    }
    file.seek(SeekFrom::Start(0)).map_err(failed)?;
    let mut length = [0; 8];
    file.read_exact(&mut length).map_err(failed)?;
    let length = u64::from_le_bytes(length);
    if length > bytes - 8 {
        return Err(format!(
            "it is no safetensors file, or cut off: its header would have {length} bytes, the \
             file has {bytes}"
        ));
    }
    if length > LARGEST {
        return Err(format!(
            "its header has {length} bytes, more than the {LARGEST} that are read"
        ));
    }
    let mut text = vec![0; length as usize];
    file.read_exact(&mut text).map_err(failed)?;
    let header: Metadata = serde_json::from_slice(&text).map_err(|error| {
        format!(
            "its safetensors header is broken: {}",
            plain(&error.to_string())
        )
    })?;
    let start = 8 + length;
    let data = bytes - start;
    if header.data_len() as u64 != data {
        return Err(format!(
            "its header describes {} bytes of tensors, the file holds {data}; is it complete?",
            header.data_len()
        ));
    }
    let infos: HashMap<_, _> = header.tensors();
    let stored = header.offset_keys().into_iter().filter_map(|name| {
        let info = infos.get(&name)?;
        let dtype = Dtype::named(&info.dtype.to_string());
        let (from, to) = info.data_offsets;
        let blob = Blob::Plain {
            start: start + from as u64,
            len: (to - from) as u64,
        };
        let place = match dtype.bytes() {
            Some(_) => Place::new(blob, &dtype, &info.shape, 0, None),
            None => Err(format!("its type {dtype} is no weight's")),
        };
        Some(Stored {
            name,
            dtype,
            shape: info.shape.clone(),
            place,
        })
    });
    Ok(stored.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn parse(length: u64, json: &str, data: usize) -> Result<Vec<Stored>, String> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&length.to_le_bytes()).unwrap();
        file.write_all(json.as_bytes()).unwrap();
        file.write_all(&vec![0; data]).unwrap();
        let bytes = 8 + (json.len() + data) as u64;
        read(&mut file, bytes)
    }

    fn good(json: &str, data: usize) -> Result<Vec<Stored>, String> {
        parse(json.len() as u64, json, data)
    }

    #[test]
    fn tensors_by_name_type_shape_and_place() {
        let json = r#"{"__metadata__":{"format":"pt"},
            "b":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},
            "a":{"dtype":"I64","shape":[],"data_offsets":[12,20]}}"#;
        let found = good(json, 20).unwrap();
        assert_eq!(found[0].name, "b");
        assert_eq!(found[0].dtype, Dtype::Bf16);
        assert_eq!(found[0].shape, [2, 3]);
        assert!(found[0].place.is_ok());
        assert_eq!(found[1].dtype, Dtype::Other("I64".into()));
        assert!(found[1].place.is_err());
    }

    #[test]
    fn hostile_headers_are_refused() {
        assert!(parse(1 << 60, "{}", 0).unwrap_err().contains("header"));
        assert!(parse(u64::MAX, "{}", 0).is_err());
        assert!(parse(1, "{}", 0).is_err());
        let one = |shape: &str, from: &str, to: &str| {
            format!(r#"{{"a":{{"dtype":"F32","shape":{shape},"data_offsets":[{from},{to}]}}}}"#)
        };
        assert!(good(&one("[2]", "0", "8"), 8).is_ok());
        for (json, data) in [
            (one("[2]", "0", "8"), 7),
            (one("[2]", "0", "8"), 9),
            (one("[2]", "4", "12"), 12),
            (one("[3]", "0", "8"), 8),
            (one("[4294967296,4294967296]", "0", "0"), 0),
            (one("[4611686018427387904,4]", "0", "0"), 0),
            (one("[2]", "8", "0"), 8),
            (one("[-2]", "0", "8"), 8),
            (one("[2305843009213693951]", "0", "9223372036854775804"), 0),
            ("[".repeat(100_000), 0),
            ("{\"a\":".repeat(100_000), 0),
        ] {
            assert!(good(&json, data).is_err(), "{json:.80}");
        }
        let overlap = r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},
            "b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}"#;
        assert!(good(overlap, 12).is_err());
    }
}
