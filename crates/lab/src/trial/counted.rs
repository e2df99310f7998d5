//! Histograms as text: HdrHistogram's own form (V2, compressed) in base64, which its other
//! implementations read too.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer as Reader, Serializer as Writer, V2DeflateSerializer};
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serializer};

/// As text.
pub fn serialize<S: Serializer>(histogram: &Histogram<u64>, to: S) -> Result<S::Ok, S::Error> {
    let mut bytes = Vec::new();
    let written = V2DeflateSerializer::new().serialize(histogram, &mut bytes);
    written.map_err(|e| S::Error::custom(format!("a histogram: {e:?}")))?;
    to.serialize_str(&STANDARD.encode(bytes))
}

/// From text.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Box<Histogram<u64>>, D::Error> {
    let text = String::deserialize(from)?;
    let bytes = STANDARD.decode(text).map_err(D::Error::custom)?;
    let read = Reader::new().deserialize(&mut bytes.as_slice());
    read.map(Box::new).map_err(|e| D::Error::custom(format!("a histogram: {e:?}")))
}
