//! Formats: what packet programs read most.

use alloc::vec::Vec;

fn be16(bytes: &[u8], at: usize) -> Option<u64> {
    Some((*bytes.get(at)? as u64) << 8 | *bytes.get(at + 1)? as u64)
}

fn be32(bytes: &[u8], at: usize) -> Option<u64> {
    Some(be16(bytes, at)? << 16 | be16(bytes, at + 2)?)
}

fn extensions(bytes: &[u8]) -> Option<u64> {
    let (mut next, mut at, mut seen) = (*bytes.get(20)?, 54, 0u64);
    while matches!(next, 0 | 43 | 44 | 60) {
        let length = if next == 44 { 8 } else { 8 + 8 * *bytes.get(at + 1)? as usize };
        seen = seen << 8 | next as u64;
        next = *bytes.get(at)?;
        at += length;
    }
    Some(seen << 8 | next as u64)
}

fn question(bytes: &[u8]) -> Option<u64> {
    let mut at = 12;
    let mut hash = 5381u64;
    loop {
        let length = *bytes.get(at)? as usize;
        if length == 0 {
            return Some(hash << 16 | be16(bytes, at + 1)?);
        }
        if length > 63 {
            return None;
        }
        for byte in bytes.get(at + 1..at + 1 + length)? {
            hash = hash.wrapping_mul(33) ^ byte.to_ascii_lowercase() as u64;
        }
        at += 1 + length;
    }
}

fn server_name(bytes: &[u8]) -> Option<&[u8]> {
    if bytes.first()? != &22 || bytes.get(5)? != &1 {
        return None;
    }
    let mut at = 43;
    at += 1 + *bytes.get(at)? as usize;
    at += 2 + be16(bytes, at)? as usize;
    at += 1 + *bytes.get(at)? as usize;
    let end = at + 2 + be16(bytes, at)? as usize;
    at += 2;
    while at + 4 <= end {
        let (kind, length) = (be16(bytes, at)?, be16(bytes, at + 2)? as usize);
        at += 4;
        if kind == 0 {
            let name = be16(bytes, at + 3)? as usize;
            return bytes.get(at + 5..at + 5 + name);
        }
        at += length;
    }
    None
}

fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |all, b| all * 31 % 1_000_003 + *b as u64)
}

programs! {
    fn ethernet_kind(bytes) {
        match be16(bytes, 12) {
            Some(0x0800) => 4,
            Some(0x86dd) => 6,
            Some(0x0806) => 1,
            Some(other) => other << 8,
            None => 0,
        }
    }

    fn vlan_stack(bytes) {
        let (mut at, mut tags) = (12, Vec::new());
        while let Some(0x8100 | 0x88a8) = be16(bytes, at) {
            tags.push(be16(bytes, at + 2).unwrap_or(0) & 0xfff);
            at += 4;
        }
        tags.iter().fold(tags.len() as u64, |all, tag| all.wrapping_mul(4096) + tag)
    }

    fn ipv4_header(bytes) {
        let Some(first) = bytes.get(14) else { return 0 };
        let length = (*first as usize & 15) * 4;
        match bytes.get(14..14 + length) {
            Some(header) if first >> 4 == 4 => sum(header),
            _ => 1,
        }
    }

    fn ipv4_options(bytes) {
        let Some(first) = bytes.get(14) else { return 0 };
        let end = (14 + (*first as usize & 15) * 4).min(bytes.len());
        let (mut at, mut found) = (34, 0u64);
        while at < end {
            match bytes[at] {
                0 => break,
                1 => at += 1,
                kind => {
                    found = found << 5 | (kind & 31) as u64;
                    let Some(length) = bytes.get(at + 1).filter(|l| **l >= 2) else { break };
                    at += *length as usize;
                }
            }
        }
        found
    }

    fn udp_ports(bytes) {
        match (be16(bytes, 34), be16(bytes, 36)) {
            (Some(from), Some(to)) if from > to => from - to,
            (Some(from), Some(to)) => (to - from) << 16,
            _ => 7,
        }
    }

    fn tcp_flags(bytes) {
        let flags = bytes.get(47).copied().unwrap_or(0);
        let names = ["FIN", "SYN", "RST", "PSH", "ACK", "URG"];
        names.iter().enumerate().filter(|(i, _)| flags >> i & 1 == 1).map(|(_, n)| sum(n.as_bytes())).sum()
    }

    fn tcp_options(bytes) {
        let end = (34 + (bytes.get(46).copied().unwrap_or(0) as usize >> 4) * 4).min(bytes.len());
        let (mut at, mut mss, mut scale) = (54, 0, 0u64);
        while at < end {
            match bytes[at] {
                0 => break,
                1 => at += 1,
                2 => {
                    mss = be16(bytes, at + 2).unwrap_or(0);
                    at += 4;
                }
                3 => {
                    scale = bytes.get(at + 2).copied().unwrap_or(0) as u64;
                    at += 3;
                }
                _ => at += bytes.get(at + 1).map_or(1, |l| (*l as usize).max(2)),
            }
        }
        mss << 8 | scale
    }

    fn ipv6_extensions(bytes) { extensions(bytes).unwrap_or(9) }

    fn dns_question(bytes) { question(bytes).unwrap_or(3) }

    fn dns_labels(bytes) {
        let mut rest = bytes.get(12..).unwrap_or(&[]);
        let mut labels = Vec::new();
        while let [length @ 1..=63, more @ ..] = rest {
            let Some((label, after)) = more.split_at_checked(*length as usize) else { break };
            labels.push(label);
            rest = after;
        }
        labels.iter().rev().fold(0u64, |all, label| all.wrapping_mul(257) + sum(label))
    }

    fn tls_server_name(bytes) { server_name(bytes).map_or(0, sum) }

    fn http_request(bytes) {
        let mut parts = bytes.splitn(3, |b| *b == b' ');
        let (method, path) = (parts.next().unwrap_or(&[]), parts.next().unwrap_or(&[]));
        match method {
            b"GET" => sum(path) << 2,
            b"POST" => sum(path) << 2 | 1,
            _ => 2 | (method.len() as u64) << 2,
        }
    }

    fn memcached_command(bytes) {
        let line = bytes.split(|b| *b == b'\r').next().unwrap_or(&[]);
        let mut words = line.split(|b| *b == b' ').filter(|w| !w.is_empty());
        match words.next() {
            Some(b"get" | b"gets") => words.map(sum).fold(1, |a, b| a.wrapping_mul(65599) + b),
            Some(b"set") => words.nth(3).and_then(|w| core::str::from_utf8(w).ok()?.parse().ok()).unwrap_or(2),
            Some(other) => other.len() as u64,
            None => 0,
        }
    }

    fn arp_sender(bytes) {
        let is_arp = be16(bytes, 12) == Some(0x0806) && be16(bytes, 20) == Some(1);
        if is_arp { be32(bytes, 28).unwrap_or(0) } else { 5 }
    }

    fn icmp_echo(bytes) {
        match bytes.get(34..38) {
            Some([8, 0, high, low]) => (*high as u64) << 8 | *low as u64,
            Some([kind, ..]) => *kind as u64 + 1000,
            _ => 0,
        }
    }

    fn quic_header(bytes) {
        let Some(first) = bytes.first() else { return 0 };
        if first & 0x80 == 0 {
            return 1;
        }
        let to = bytes.get(5).copied().unwrap_or(0).min(20) as usize;
        let from = bytes.get(6 + to).copied().unwrap_or(0).min(20) as usize;
        let ids = bytes.get(6..6 + to).into_iter().chain(bytes.get(7 + to..7 + to + from));
        ids.map(sum).sum::<u64>() ^ be32(bytes, 1).unwrap_or(0)
    }

    fn dhcp_options(bytes) {
        let mut rest = bytes.get(40..).unwrap_or(&[]);
        let mut kinds = [0u8; 256];
        while let [kind, after @ ..] = rest {
            rest = match (*kind, after) {
                (0, _) => after,
                (255, _) => break,
                (_, [length, value @ ..]) => value.get(*length as usize..).unwrap_or(&[]),
                _ => &[],
            };
            kinds[*kind as usize] += 1;
        }
        kinds.iter().enumerate().map(|(i, n)| i as u64 * *n as u64).sum()
    }

    fn gre_inner(bytes) {
        let flags = be16(bytes, 34).unwrap_or(0);
        let skip = [0x8000, 0x2000, 0x1000].iter().filter(|bit| flags & **bit != 0).count() * 4;
        bytes.get(38 + skip).map_or(0, |b| *b as u64 + 1)
    }

    fn vxlan_network(bytes) {
        match (be16(bytes, 36), be32(bytes, 46)) {
            (Some(4789), Some(network)) => network >> 8,
            (Some(port), _) => port ^ 0xffff,
            _ => 0,
        }
    }

    fn ntp_fields(bytes) {
        let first = bytes.first().copied().unwrap_or(0);
        let (leap, version, mode) = (first >> 6, first >> 3 & 7, first & 7);
        (leap as u64) << 16 | (version as u64) << 8 | mode as u64
    }

    fn json_depth(bytes) {
        let (mut depth, mut most, mut quoted, mut escaped) = (0i64, 0i64, false, false);
        for byte in bytes {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                b'"' => quoted = !quoted,
                b'{' | b'[' if !quoted => depth += 1,
                b'}' | b']' if !quoted => depth -= 1,
                _ => {}
            }
            most = most.max(depth);
        }
        (most as u64) << 32 | depth as u32 as u64
    }

    fn number_list(bytes) {
        let numbers = bytes.split(|b| !b.is_ascii_digit()).filter(|w| !w.is_empty());
        let value = |w: &[u8]| w.iter().fold(0u64, |n, d| n.wrapping_mul(10).wrapping_add((d - b'0') as u64));
        numbers.map(value).fold(0, u64::wrapping_add)
    }
}
