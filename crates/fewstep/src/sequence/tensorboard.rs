//! Event files as TensorBoard reads them: records of a protocol buffer each, with checksums.
//!
//! A record is its length (u64), a masked CRC-32C of those eight bytes, the bytes, and a masked
//! CRC-32C of them, all little-endian. An event has a wall time (field 1), a step (2), and either a
//! version (3) or a summary (5) of tagged values.

/// The record that a file begins with.
pub fn version(time: f64) -> Vec<u8> {
    let mut event = Vec::new();
    double(&mut event, 1, time);
    bytes(&mut event, 3, b"brain.Event:2");
    record(&event)
}

/// A record of scalars.
pub fn scalars<'a>(time: f64, step: u64, values: impl Iterator<Item = (&'a str, f64)>) -> Vec<u8> {
    let mut summary = Vec::new();
    for (tag, value) in values {
        let mut one = Vec::new();
        bytes(&mut one, 1, tag.as_bytes());
        key(&mut one, 2, FIXED_32);
        one.extend((value as f32).to_le_bytes());
        bytes(&mut summary, 1, &one);
    }
    let mut event = Vec::new();
    double(&mut event, 1, time);
    key(&mut event, 2, VARINT);
    varint(&mut event, step);
    bytes(&mut event, 5, &summary);
    record(&event)
}

const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const LENGTH: u64 = 2;
const FIXED_32: u64 = 5;

fn key(out: &mut Vec<u8>, field: u64, kind: u64) {
    varint(out, field << 3 | kind);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn double(out: &mut Vec<u8>, field: u64, value: f64) {
    key(out, field, FIXED_64);
    out.extend(value.to_le_bytes());
}

fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    key(out, field, LENGTH);
    varint(out, value.len() as u64);
    out.extend(value);
}

fn record(event: &[u8]) -> Vec<u8> {
    let length = (event.len() as u64).to_le_bytes();
    let mut out = length.to_vec();
    out.extend(masked(&length).to_le_bytes());
    out.extend(event);
    out.extend(masked(event).to_le_bytes());
    out
}

/// The checksum, turned so that one of data that hold checksums is still of use.
fn masked(data: &[u8]) -> u32 {
    crc(data).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// CRC-32C (Castagnoli), bit by bit: a line of metrics is short.
fn crc(data: &[u8]) -> u32 {
    !data.iter().fold(!0, |crc: u32, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            let low = crc & 1;
            (crc >> 1) ^ (low.wrapping_neg() & 0x82f6_3b78)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value of CRC-32C, and the mask of its definition.
    #[test]
    fn checksums_are_castagnolis() {
        assert_eq!(crc(b"123456789"), 0xe306_9283);
        assert_eq!(masked(b"123456789"), 0xc78a_b0e5);
    }

    /// Against the bytes of TensorFlow's format, put together by hand.
    #[test]
    fn a_record_is_length_checksum_event_checksum() {
        let out = scalars(1.5, 300, [("loss", 2.0)].into_iter());
        let event = [
            &[0x09][..],
            &1.5f64.to_le_bytes(),
            &[0x10, 0xac, 0x02],
            &[0x2a, 0x0d, 0x0a, 0x0b, 0x0a, 0x04],
            b"loss",
            &[0x15],
            &2f32.to_le_bytes(),
        ]
        .concat();
        assert_eq!(out[..8], (event.len() as u64).to_le_bytes());
        assert_eq!(out[8..12], masked(&out[..8]).to_le_bytes());
        assert_eq!(out[12..12 + event.len()], event);
        assert_eq!(out[12 + event.len()..], masked(&event).to_le_bytes());
        assert!(version(0.0).windows(13).any(|w| w == b"brain.Event:2"));
    }
}
