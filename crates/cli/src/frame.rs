//! Packets as a person writes them down: `eth / ipv4 dst=10.0.0.2 / udp dst=53 / text:hello`.
//!
//! Layers stand one after the other, with `/` between them; lengths, checksums and the type of the next
//! layer fill themselves in where no field says otherwise. Fields, with their defaults:
//!
//! | layer | fields |
//! |---|---|
//! | `eth` | `dst=02:00:00:00:00:02 src=02:00:00:00:00:01 type` |
//! | `vlan` | `id=1 type`; `as=0x88a8` makes its tag the outer one of two |
//! | `ipv4` | `src=10.0.0.1 dst=10.0.0.2 ttl=64 tos=0 id=0 frag=0 ihl=5 len proto sum` |
//! | `ipv6` | `src=fd00::1 dst=fd00::2 hop=64 class=0 label=0 len next` |
//! | `ext` | an IPv6 extension header of eight bytes: `type=0` (44: fragment), `next` |
//! | `tcp` | `src=1024 dst=80 seq=0 ack=0 flags=ack window=512`; flags are joined by `+` |
//! | `udp` | `src=1024 dst=80 len` |
//! | `icmp`, `icmpv6` | `type=8` or `128`, `code=0 rest=0` |
//! | bytes | in the notation of [`crate::bytes`] |
//! | `cut:N` | what is beyond N bytes is cut off; the last of them all |

use crate::bytes;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

/// EtherType and protocol of what is no layer of ours: kept free for experiments.
const EXPERIMENTAL_TYPE: u64 = 0x88b5;
const EXPERIMENTAL_PROTOCOL: u64 = 253;

/// The bytes of a packet.
pub fn build(text: &str) -> Result<Vec<u8>, String> {
    let mut parts: Vec<&str> = text.split('/').map(str::trim).collect();
    let cut = parts.last().and_then(|p| p.strip_prefix("cut:")).map(bytes::number).transpose()?;
    if cut.is_some() {
        parts.pop();
    }
    let layers = parts.iter().map(|p| Layer::parse(p)).collect::<Result<Vec<_>, _>>()?;
    let mut out = encode(&layers, 0)?;
    if let Some(length) = cut {
        out.truncate(length as usize);
    }
    Ok(out)
}

struct Layer<'a> {
    name: &'a str,
    fields: BTreeMap<&'a str, &'a str>,
    /// Of a layer that is only bytes.
    bytes: Vec<u8>,
}

impl<'a> Layer<'a> {
    fn parse(text: &'a str) -> Result<Layer<'a>, String> {
        let mut words = text.split_whitespace();
        let name = words.next().ok_or("a layer is empty")?;
        if name.contains(':') || name.starts_with('@') {
            return Ok(Layer { name: "bytes", fields: BTreeMap::new(), bytes: bytes::parse(text)? });
        }
        let known = fields_of(name).ok_or_else(|| format!("`{name}`: no such layer"))?;
        let mut fields = BTreeMap::new();
        for word in words {
            let (field, value) = word.split_once('=').ok_or_else(|| format!("`{word}`: expected FIELD=VALUE"))?;
            if !known.contains(&field) {
                return Err(format!("`{word}`: {name} has no such field"));
            }
            fields.insert(field, value);
        }
        Ok(Layer { name, fields, bytes: Vec::new() })
    }

    fn number(&self, field: &str, default: u64, bits: u32) -> Result<u64, String> {
        let Some(text) = self.fields.get(field) else { return Ok(default) };
        let n = bytes::number(text)?;
        if n >> bits == 0 { Ok(n) } else { Err(format!("`{field}={text}`: the field has {bits} bits")) }
    }

    fn be16(&self, field: &str, default: u64) -> Result<[u8; 2], String> {
        Ok((self.number(field, default, 16)? as u16).to_be_bytes())
    }

    fn be32(&self, field: &str, default: u64) -> Result<[u8; 4], String> {
        Ok((self.number(field, default, 32)? as u32).to_be_bytes())
    }

    fn u8(&self, field: &str, default: u64) -> Result<u8, String> {
        Ok(self.number(field, default, 8)? as u8)
    }

    /// Source and destination, for headers and pseudo-headers.
    fn addresses(&self) -> Result<Vec<u8>, String> {
        let text = |field, default| *self.fields.get(field).unwrap_or(&default);
        Ok(match self.name {
            "ipv4" => [text("src", "10.0.0.1"), text("dst", "10.0.0.2")]
                .map(bytes::address::<Ipv4Addr>)
                .into_iter()
                .map(|a| a.map(|a| a.octets()))
                .collect::<Result<Vec<_>, _>>()?
                .concat(),
            "ipv6" => [text("src", "fd00::1"), text("dst", "fd00::2")]
                .map(bytes::address::<Ipv6Addr>)
                .into_iter()
                .map(|a| a.map(|a| a.octets()))
                .collect::<Result<Vec<_>, _>>()?
                .concat(),
            _ => Vec::new(),
        })
    }

    /// What an EtherType field before it says.
    fn ethertype(&self) -> Result<u64, String> {
        Ok(match self.name {
            "vlan" => self.number("as", 0x8100, 16)?,
            "ipv4" => 0x0800,
            "ipv6" => 0x86dd,
            _ => EXPERIMENTAL_TYPE,
        })
    }

    /// What a protocol field before it says.
    fn protocol(&self) -> Result<u64, String> {
        Ok(match self.name {
            "ext" => self.number("type", 0, 8)?,
            "ipv4" => 4,
            "ipv6" => 41,
            "tcp" => 6,
            "udp" => 17,
            "icmp" => 1,
            "icmpv6" => 58,
            _ => EXPERIMENTAL_PROTOCOL,
        })
    }
}

fn fields_of(layer: &str) -> Option<&'static [&'static str]> {
    Some(match layer {
        "eth" => &["dst", "src", "type"],
        "vlan" => &["id", "type", "as"],
        "ipv4" => &["src", "dst", "ttl", "tos", "id", "frag", "ihl", "len", "proto", "sum"],
        "ipv6" => &["src", "dst", "hop", "class", "label", "len", "next"],
        "ext" => &["type", "next"],
        "tcp" => &["src", "dst", "seq", "ack", "flags", "window"],
        "udp" => &["src", "dst", "len"],
        "icmp" | "icmpv6" => &["type", "code", "rest"],
        _ => return None,
    })
}

/// The layers from one on.
fn encode(layers: &[Layer], at: usize) -> Result<Vec<u8>, String> {
    let Some(layer) = layers.get(at) else { return Ok(Vec::new()) };
    let payload = encode(layers, at + 1)?;
    let next = layers.get(at + 1);
    let ethertype = next.map_or(Ok(EXPERIMENTAL_TYPE), Layer::ethertype)?;
    let protocol = next.map_or(Ok(EXPERIMENTAL_PROTOCOL), Layer::protocol)?;
    // Checksums cover the addresses of the closest IP header before.
    let carrier = layers[..at].iter().rev().find(|l| matches!(l.name, "ipv4" | "ipv6"));
    let mut out = match layer.name {
        "eth" => ethernet(layer, ethertype)?,
        "vlan" => [layer.be16("id", 1)?, layer.be16("type", ethertype)?].concat(),
        "ipv4" => ipv4(layer, protocol, payload.len())?,
        "ipv6" => ipv6(layer, protocol, payload.len())?,
        "ext" => [vec![layer.u8("next", protocol)?], vec![0; 7]].concat(),
        "tcp" => tcp(layer)?,
        "udp" => udp(layer, payload.len())?,
        "icmp" => icmp(layer, 8)?,
        "icmpv6" => icmp(layer, 128)?,
        _ => layer.bytes.clone(),
    };
    out.extend(&payload);
    if let Some(place) = checksum_place(layer.name) {
        let pseudo = if layer.name == "icmp" { Vec::new() } else { pseudo_header(layer, carrier, out.len())? };
        let sum = checksum(&[pseudo, out.clone()].concat());
        out[place..place + 2].copy_from_slice(&sum);
    }
    Ok(out)
}

/// Where the checksum of a transport header is.
fn checksum_place(layer: &str) -> Option<usize> {
    match layer {
        "tcp" => Some(16),
        "udp" => Some(6),
        "icmp" | "icmpv6" => Some(2),
        _ => None,
    }
}

fn pseudo_header(layer: &Layer, carrier: Option<&Layer>, length: usize) -> Result<Vec<u8>, String> {
    let mut out = carrier.map_or(Ok(Vec::new()), Layer::addresses)?;
    out.extend((length as u32).to_be_bytes());
    out.extend((layer.protocol()? as u32).to_be_bytes());
    Ok(out)
}

fn ethernet(layer: &Layer, ethertype: u64) -> Result<Vec<u8>, String> {
    let address = |field, default| bytes::mac(layer.fields.get(field).unwrap_or(&default));
    let (dst, src) = (address("dst", "02:00:00:00:00:02")?, address("src", "02:00:00:00:00:01")?);
    Ok([&dst[..], &src[..], &layer.be16("type", ethertype)?].concat())
}

fn ipv4(layer: &Layer, protocol: u64, payload: usize) -> Result<Vec<u8>, String> {
    let words = layer.number("ihl", 5, 4)?;
    let options = (words.max(5) as usize - 5) * 4;
    let length = (20 + options + payload) as u64;
    let mut out = vec![0x40 | words as u8, layer.u8("tos", 0)?];
    out.extend(layer.be16("len", length)?);
    out.extend(layer.be16("id", 0)?);
    out.extend(layer.be16("frag", 0)?);
    out.extend([layer.u8("ttl", 64)?, layer.u8("proto", protocol)?, 0, 0]);
    out.extend(layer.addresses()?);
    out.resize(20 + options, 0);
    let sum = match layer.fields.contains_key("sum") {
        true => layer.be16("sum", 0)?,
        false => checksum(&out),
    };
    out[10..12].copy_from_slice(&sum);
    Ok(out)
}

fn ipv6(layer: &Layer, protocol: u64, payload: usize) -> Result<Vec<u8>, String> {
    let first = 6 << 28 | layer.number("class", 0, 8)? << 20 | layer.number("label", 0, 20)?;
    let mut out = (first as u32).to_be_bytes().to_vec();
    out.extend(layer.be16("len", payload as u64)?);
    out.extend([layer.u8("next", protocol)?, layer.u8("hop", 64)?]);
    out.extend(layer.addresses()?);
    Ok(out)
}

fn tcp(layer: &Layer) -> Result<Vec<u8>, String> {
    const FLAGS: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];
    let mut flags = 0u8;
    for name in layer.fields.get("flags").unwrap_or(&"ack").split('+') {
        let bit = FLAGS.iter().position(|f| *f == name).ok_or_else(|| format!("`{name}`: no such TCP flag"))?;
        flags |= 1 << bit;
    }
    let mut out = [layer.be16("src", 1024)?, layer.be16("dst", 80)?].concat();
    out.extend(layer.be32("seq", 0)?);
    out.extend(layer.be32("ack", 0)?);
    out.extend([0x50, flags]);
    out.extend(layer.be16("window", 512)?);
    out.extend([0; 4]);
    Ok(out)
}

fn udp(layer: &Layer, payload: usize) -> Result<Vec<u8>, String> {
    let ports = [layer.be16("src", 1024)?, layer.be16("dst", 80)?];
    Ok([ports.concat(), layer.be16("len", 8 + payload as u64)?.to_vec(), vec![0; 2]].concat())
}

fn icmp(layer: &Layer, kind: u64) -> Result<Vec<u8>, String> {
    let start = [layer.u8("type", kind)?, layer.u8("code", 0)?, 0, 0];
    Ok([start, layer.be32("rest", 0)?].concat())
}

/// The Internet checksum (RFC 1071).
pub fn checksum(bytes: &[u8]) -> [u8; 2] {
    let word = |c: &[u8]| u32::from(c[0]) << 8 | u32::from(*c.get(1).unwrap_or(&0));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::to_hex;

    #[test]
    fn a_packet_of_layers() {
        let packet =
            build("eth / ipv4 src=192.168.0.1 dst=192.168.0.199 ttl=64 frag=0x4000 / udp src=7 dst=9 / text:ab")
                .unwrap();
        assert_eq!(
            to_hex(&packet),
            "02000000000202000000000108004500001e000040004011b8b6c0a80001c0a800c700070009000a1c4f6162"
        );
    }

    #[test]
    fn checksums_are_right() {
        // A sum over everything with its checksum is zero.
        for text in ["eth / ipv6 / tcp flags=syn+ack / text:odd", "eth / ipv4 / icmp rest=7 / zeros:3"] {
            let packet = build(text).unwrap();
            let is_ipv6 = text.contains("ipv6");
            let start = if is_ipv6 { 54 } else { 34 };
            let body = packet[start..].to_vec();
            let mut covered = Vec::new();
            if is_ipv6 {
                covered.extend(&packet[22..54]);
                covered.extend((body.len() as u32).to_be_bytes());
                covered.extend([0, 0, 0, 6]);
            }
            covered.extend(body);
            assert_eq!(checksum(&covered), [0, 0], "{text}");
        }
    }

    #[test]
    fn tags_extensions_and_cuts() {
        let packet = build("eth / vlan id=5 / ipv6 / ext type=44 / udp").unwrap();
        assert_eq!(packet[12..18], [0x81, 0, 0, 5, 0x86, 0xdd]);
        assert_eq!((packet[24], packet[58]), (44, 17));
        assert_eq!(build("eth / ipv4 / tcp / cut:20").unwrap().len(), 20);
        assert_eq!(build("eth / ipv4 ihl=6 / tcp").unwrap().len(), 14 + 24 + 20);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, what) in [
            ("eth / foo", "`foo`"),
            ("eth / ipv4 port=1", "`port=1`"),
            ("eth / tcp dst=70000", "16 bits"),
            ("eth / tcp flags=x", "`x`"),
            ("eth / / tcp", "empty"),
        ] {
            assert!(build(text).unwrap_err().contains(what), "{text}");
        }
    }
}
