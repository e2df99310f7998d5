//! The cache in front of memcached: each thing that the original BMC gets wrong, on the host and in the
//! kernel, by the same scenarios. Keys are different in each, as the cache is one.

mod machines;
mod packets;

use karakoram_bmc::cache::GUARD_NS;
use machines::{Host, Kernel, Machine, PASS, TX};
use packets::{TEXT, checksum, clients, reply, reply_part, request, to_server, value};

type Scenario = fn(&mut dyn Machine);

/// A value that was asked for is answered, with right headers.
fn a_hit_is_answered(m: &mut dyn Machine) {
    let [alice, bob] = clients();
    m.ask(alice, 1, "plain", "one\r\ntwo");
    let (verdict, packet) = m.answer(request(bob, 77, "get plain\r\n"));
    assert_eq!(verdict, TX);
    let mut expected = reply(bob, 77, &format!("{}END\r\n", value("plain", "one\r\ntwo")));
    // Back where it came from; no checksum of the payload.
    let (to, from) = (packet[0..6].to_vec(), packet[6..12].to_vec());
    expected[0..6].copy_from_slice(&to);
    expected[6..12].copy_from_slice(&from);
    assert_eq!((&packet[..6], &packet[6..12]), (&[2, 0, 0, 0, 0, 2][..], &[2, 0, 0, 0, 0, 1][..]));
    assert_eq!(packet, expected);
    assert_eq!(checksum(&packet[14..34]), 0);
}

/// 1. The original answers with the keys it has, as if there were no others.
fn all_keys_or_none(m: &mut dyn Machine) {
    let [alice, bob] = clients();
    m.ask(alice, 1, "multi-a", "A");
    assert_eq!(m.get(bob, 2, "multi-a multi-b"), None);
    // memcached answers both; now both are known.
    let both = format!("{}{}END\r\n", value("multi-a", "A"), value("multi-b", "B"));
    m.learn(reply(bob, 2, &both));
    assert_eq!(m.get(alice, 3, "multi-a multi-b"), Some(both));
    let twice = format!("{0}{0}END\r\n", value("multi-b", "B"));
    assert_eq!(m.get(alice, 4, "multi-b multi-b"), Some(twice));
}

/// 2. The original drops what outgrows the request by more than 128 bytes.
fn large_values_are_answered(m: &mut dyn Machine) {
    let [alice, bob] = clients();
    for (key, bytes) in [("large-256", 256), ("large-1000", 1000)] {
        let text = "x".repeat(bytes);
        m.ask(alice, 1, key, &text);
        assert_eq!(m.get(bob, 2, key), Some(format!("{}END\r\n", value(key, &text))));
    }
    // What does not fit into one datagram is memcached's to answer.
    assert_eq!(m.get(bob, 3, "large-1000 large-1000"), None);
    // Nor does the cache take what its slots have no room for.
    m.ask(alice, 4, "too-large", &"x".repeat(1001));
    assert_eq!(m.get(bob, 5, "too-large"), None);
}

/// 3. The original keeps replies of `gets`, which have a number that `get` must not show.
fn replies_of_gets_are_not_kept(m: &mut dyn Machine) {
    let [alice, bob] = clients();
    assert_eq!(m.get(alice, 1, "unique"), None);
    m.learn(reply(alice, 1, "VALUE unique 0 1 77\r\nU\r\nEND\r\n"));
    assert_eq!(m.get(bob, 2, "unique"), None);
}

/// 4. The original keeps the first datagram of a reply that has several.
fn parts_of_replies_are_not_kept(m: &mut dyn Machine) {
    let [alice, bob] = clients();
    assert_eq!(m.get(alice, 1, "part"), None);
    let text = format!("{}END\r\n", value("part", "P"));
    m.learn(reply_part(alice, [1, 0, 2], &text));
    m.learn(reply_part(alice, [1, 1, 2], &text));
    assert_eq!(m.get(bob, 2, "part"), None);
    // Requests in parts are none of ours either.
    m.ask(alice, 3, "part", "P");
    let mut two = request(bob, 4, "get part\r\n");
    two[TEXT - 3] = 2;
    assert_eq!(m.answer(two).0, PASS);
}

/// 5. The original only knows `set`.
fn every_write_is_noticed(m: &mut dyn Machine) {
    let [alice, bob] = clients();
    let writes = [
        "set K 0 0 1\r\nn\r\n",
        "add K 0 0 1\r\nn\r\n",
        "replace K 0 0 1\r\nn\r\n",
        "append K 0 0 1\r\nn\r\n",
        "prepend K 0 0 1\r\nn\r\n",
        "cas K 0 0 1 9\r\nn\r\n",
        "incr K 1\r\n",
        "decr K 1\r\n",
        "delete K\r\n",
        "touch K 0\r\n",
        "gat 60 K\r\n",
        "gats 60 K\r\n",
        "ms K 1\r\nn\r\n",
        "md K\r\n",
        "ma K\r\n",
        "mg K v T60\r\n",
        "set other 0 0 1\r\nn\r\ndelete K\r\n",
    ];
    for (n, write) in writes.iter().enumerate() {
        let key = format!("written-{n}");
        m.ask(alice, 1, &key, "old");
        assert!(m.get(bob, 2, &key).is_some());
        m.say(bob, 1000 * n as u32, write.replace('K', &key).as_bytes());
        assert_eq!(m.get(bob, 3, &key), None, "{write}");
    }
    // Also as datagrams.
    m.ask(alice, 1, "written-udp", "old");
    assert_eq!(m.answer(request(bob, 2, "set written-udp 0 0 1\r\nn\r\n")).0, PASS);
    assert_eq!(m.get(bob, 3, "written-udp"), None);
}

/// 5. The original ignores `flush_all`, and whatever a binary client says.
fn a_flush_empties_everything(m: &mut dyn Machine) {
    let [alice, bob] = clients();
    m.ask(alice, 1, "flushed", "old");
    m.say(bob, 1, b"flush_all\r\n");
    assert_eq!(m.get(bob, 2, "flushed"), None);
    m.hear(bob, "OK\r\n");
    m.ask(alice, 3, "flushed", "new");
    assert!(m.get(bob, 4, "flushed").is_some());
    m.say(bob, 12, b"\x80\x01\0\x01\x08\0\0\0\0\0\0\x0a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0kv");
    assert_eq!(m.get(bob, 5, "flushed"), None);
    m.wait(GUARD_NS + 1);
    m.ask(alice, 6, "flushed", "new");
    assert!(m.get(bob, 7, "flushed").is_some());
}

/// 5. The original answers with values that have expired.
fn what_expires_is_not_kept(m: &mut dyn Machine) {
    let [alice, bob] = clients();
    m.say(bob, 1, b"set expires 0 2 1\r\nv\r\n");
    m.hear(bob, "STORED\r\n");
    for _ in 0..2 {
        m.ask(alice, 1, "expires", "v");
    }
    assert_eq!(m.get(alice, 3, "expires"), None);
}

/// 6. In the original an old reply that leaves after a write has come is kept for ever.
fn an_old_reply_is_not_kept(m: &mut dyn Machine) {
    let [alice, bob] = clients();
    assert_eq!(m.get(alice, 1, "race"), None);
    m.say(bob, 1, b"set race 0 0 3\r\nnew\r\n");
    m.learn(reply(alice, 1, &format!("{}END\r\n", value("race", "old"))));
    assert_eq!(m.get(alice, 2, "race"), None);
}

/// Of a key that everybody asks for the first reply is kept, though others have asked since.
fn the_first_reply_is_kept(m: &mut dyn Machine) {
    let [alice, bob] = clients();
    assert_eq!(m.get(alice, 1, "popular"), None);
    assert_eq!(m.get(bob, 2, "popular"), None);
    m.learn(reply(alice, 1, &format!("{}END\r\n", value("popular", "v"))));
    assert!(m.get(bob, 3, "popular").is_some());
}

/// 6. A request may overtake a write between here and memcached.
fn an_overtaken_write_is_noticed(m: &mut dyn Machine) {
    let [alice, bob] = clients();
    m.say(bob, 1, b"set overtaken 0 0 3\r\nnew\r\n");
    m.ask(alice, 1, "overtaken", "old");
    m.hear(bob, "STORED\r\n");
    assert_eq!(m.get(alice, 2, "overtaken"), None);
    m.ask(alice, 3, "overtaken", "new");
    assert!(m.get(alice, 4, "overtaken").is_some());
    // The answer was counted: the next one is not taken for it.
    m.hear(bob, "STORED\r\n");
    assert!(m.get(alice, 5, "overtaken").is_some());
}

/// 6. Of a write without an answer nobody says when it is done.
fn a_silent_write_is_waited_for(m: &mut dyn Machine) {
    let [alice, bob] = clients();
    m.say(bob, 1, b"set silent 0 0 3 noreply\r\nnew\r\n");
    m.ask(alice, 1, "silent", "old");
    assert_eq!(m.get(alice, 2, "silent"), None);
    m.wait(GUARD_NS + 1);
    m.ask(alice, 3, "silent", "new");
    assert!(m.get(alice, 4, "silent").is_some());
}

/// 7. The original does not see commands that are split over segments.
fn split_commands_are_put_together(m: &mut dyn Machine) {
    let [alice, bob] = clients();
    let command = b"set split-key 0 0 3\r\nnew\r\n";
    for at in 1..19 {
        m.ask(alice, 1, "split-key", "old");
        assert!(m.get(alice, 2, "split-key").is_some(), "before {at}");
        let sequence = (at * command.len()) as u32;
        m.say(bob, sequence, &command[..at]);
        m.say(bob, sequence + at as u32, &command[at..]);
        assert_eq!(m.get(alice, 3, "split-key"), None, "split at {at}");
        m.hear(bob, "STORED\r\n");
    }
    // The second half comes first: nobody can know which key it was.
    m.ask(alice, 4, "split-key", "old");
    m.say(alice, 100, b"t split-key 0 0 3\r\nnew\r\n");
    m.say(alice, 98, b"se");
    assert_eq!(m.get(alice, 5, "split-key"), None);
    m.wait(GUARD_NS + 1);
}

/// On a connection that was seen from its begin, of nothing but `set`, it is known which answer belongs to which
/// write: what is kept is renewed.
fn what_is_written_is_kept(m: &mut dyn Machine) {
    let [alice, bob] = clients();
    m.ask(alice, 1, "renewed", "old");
    m.ask(alice, 1, "renewed-too", "old");
    m.connect(bob);
    m.say(bob, 1, b"set renewed 0 0 3\r\nnew\r\nset renewed-too 0 0 5\r\nn\r\nw2\r\n");
    assert_eq!(m.get(alice, 2, "renewed"), None);
    m.hear_at(bob, 1, "STORED\r\n");
    assert_eq!(m.get(alice, 3, "renewed"), Some(format!("{}END\r\n", value("renewed", "new"))));
    assert_eq!(m.get(alice, 4, "renewed-too"), None);
    m.hear_at(bob, 9, "STORED\r\n");
    assert_eq!(m.get(alice, 5, "renewed-too"), Some(format!("{}END\r\n", value("renewed-too", "n\r\nw2"))));
    // What nobody has asked for does not take the place of anything.
    let second = b"set never-asked 0 0 1\r\nv\r\n";
    m.say(bob, 55, second);
    m.hear_at(bob, 17, "STORED\r\n");
    assert_eq!(m.get(alice, 6, "never-asked"), None);
    // In two segments: then it is only forgotten, and memcached asked.
    let third = 55 + second.len() as u32;
    m.say(bob, third, b"set renewed 0 0 3\r\nto");
    m.say(bob, third + 21, b"o\r\nset renewed-too 0 0 1\r\n3\r\n");
    m.hear_at(bob, 25, "STORED\r\nSTORED\r\n");
    assert_eq!(m.get(alice, 7, "renewed"), None);
    assert_eq!(m.get(alice, 8, "renewed-too"), Some(format!("{}END\r\n", value("renewed-too", "3"))));
}

/// What memcached may not have stored, or not last, or another one's answer may be about, is not kept.
fn what_may_not_be_stored_is_not_kept(m: &mut dyn Machine) {
    type Case = (&'static str, fn(&mut dyn Machine, packets::Client, packets::Client, &str));
    let cases: [Case; 9] = [
        ("an error", |m, _, bob, _| m.hear_at(bob, 1, "SERVER_ERROR out of memory storing object\r\n")),
        ("another write meanwhile", |m, alice, bob, key| {
            m.say(alice, 1, format!("set {key} 0 0 5\r\nother\r\n").as_bytes());
            m.hear_at(bob, 1, "STORED\r\n");
        }),
        ("a write that nobody answers", |m, alice, bob, key| {
            m.say(alice, 1, format!("set {key} 0 0 5 noreply\r\nother\r\n").as_bytes());
            m.hear_at(bob, 1, "STORED\r\n");
        }),
        ("a gap in the answers", |m, _, bob, _| m.hear_at(bob, 9, "STORED\r\n")),
        ("an answer that was heard before", |m, _, bob, _| m.hear_at(bob, 0u32.wrapping_sub(7), "STORED\r\n")),
        ("half an answer", |m, _, bob, _| m.hear_at(bob, 1, "STO")),
        ("a gap in the writes", |m, _, bob, _| {
            m.say(bob, 500, b"set later 0 0 1\r\nv\r\n");
            m.hear_at(bob, 1, "STORED\r\n");
        }),
        ("a request for a value", |m, _, bob, key| {
            m.say(bob, 1 + format!("set {key} 0 0 3\r\nnew\r\n").len() as u32, b"get any\r\n");
            m.hear_at(bob, 1, "STORED\r\n");
        }),
        ("a flush", |m, alice, bob, _| {
            m.say(alice, 1, b"flush_all\r\n");
            m.hear_at(bob, 1, "STORED\r\n");
        }),
    ];
    for (n, (name, then)) in cases.into_iter().enumerate() {
        let [alice, bob] = clients();
        let key = format!("doubtful-{n}");
        m.ask(alice, 1, &key, "old");
        m.connect(bob);
        m.say(bob, 1, format!("set {key} 0 0 3\r\nnew\r\n").as_bytes());
        then(m, alice, bob, &key);
        assert_eq!(m.get(alice, 2, &key), None, "{name}");
        m.wait(GUARD_NS + 1);
    }
    // A connection of which the begin was not seen.
    let [alice, bob] = clients();
    m.ask(alice, 1, "doubtful", "old");
    m.say(bob, 1, b"set doubtful 0 0 3\r\nnew\r\n");
    m.hear_at(bob, 1, "STORED\r\n");
    assert_eq!(m.get(alice, 2, "doubtful"), None);
}

/// 8. The original takes a key for another one that it is the beginning of.
fn keys_are_compared_to_the_end(m: &mut dyn Machine) {
    let [alice, _] = clients();
    // Two keys of one slot would have to be found for the original's mistake; here the header of the
    // reply is such that the key is only its beginning.
    assert_eq!(m.get(alice, 1, "prefix"), None);
    m.learn(reply(alice, 1, &format!("{}END\r\n", value("prefix-and-more", "v"))));
    assert_eq!(m.get(alice, 2, "prefix"), None);
    assert_eq!(m.get(alice, 3, "prefix-and-more"), None);
}

/// 8. Packets of other forms pass as they are.
fn other_packets_pass(m: &mut dyn Machine) {
    let [alice, bob] = clients();
    m.ask(alice, 1, "other", "v");
    let plain = request(bob, 2, "get other\r\n");
    let mut options = plain.clone();
    options[14] = 0x46;
    let mut fragment = plain.clone();
    fragment[20] = 0x20;
    let mut vlan = plain.clone();
    vlan.splice(12..12, [0x81, 0, 0, 5]);
    let mut cut = plain.clone();
    cut.truncate(55);
    let mut length = plain.clone();
    length[39] += 1;
    for text in [
        "get other\n",
        "get  other\r\n",
        "get other \r\n",
        "get other\r\nget other\r\n",
        "get \r\n",
        "get",
        "gets other\r\n",
    ] {
        let packet = request(bob, 2, text);
        assert_eq!(m.answer(packet.clone()), (PASS, packet), "{text:?}");
    }
    for packet in [options, vlan, cut, length] {
        assert_eq!(m.answer(packet.clone()), (PASS, packet));
    }
    // The key that no memcached would take.
    let long = request(bob, 2, &format!("get {}\r\n", "k".repeat(251)));
    assert_eq!(m.answer(long.clone()), (PASS, long));
    assert!(m.get(bob, 3, "other").is_some());
    assert_eq!(m.answer(fragment.clone()), (PASS, fragment));
    m.wait(GUARD_NS + 1);
}

/// A write over IPv6, with a VLAN tag, or behind options is noticed.
fn writes_by_other_ways_are_noticed(m: &mut dyn Machine) {
    let [alice, bob] = clients();
    let plain = to_server(bob, 1, b"set way 0 0 3\r\nnew\r\n");
    let mut vlan = plain.clone();
    vlan.splice(12..12, [0x81, 0, 0, 5]);
    let mut options = plain.clone();
    options[14] = 0x46;
    options[17] += 4;
    options.splice(34..34, [1, 1, 1, 1]);
    let mut six = plain[..12].to_vec();
    six.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
    six.extend(((plain.len() - 34) as u16).to_be_bytes());
    six.extend([6, 64]);
    six.extend([1; 32]);
    six.extend(&plain[34..]);
    for packet in [vlan, options, six] {
        m.ask(alice, 1, "way", "old");
        assert!(m.get(alice, 2, "way").is_some());
        assert_eq!(m.answer(packet).0, PASS);
        assert_eq!(m.get(alice, 3, "way"), None);
    }
}

macro_rules! scenarios {
    ($($name:ident)*) => {
        const SCENARIOS: &[(&str, Scenario)] = &[$((stringify!($name), $name)),*];

        mod on_the_host {
            $(#[test]
            fn $name() {
                super::$name(&mut super::Host::new());
            })*
        }
    };
}

scenarios! {
    a_hit_is_answered all_keys_or_none large_values_are_answered replies_of_gets_are_not_kept
    parts_of_replies_are_not_kept every_write_is_noticed a_flush_empties_everything what_expires_is_not_kept
    the_first_reply_is_kept an_old_reply_is_not_kept an_overtaken_write_is_noticed a_silent_write_is_waited_for
    split_commands_are_put_together keys_are_compared_to_the_end other_packets_pass
    writes_by_other_ways_are_noticed what_is_written_is_kept what_may_not_be_stored_is_not_kept
}

#[test]
fn all_of_it_in_the_kernel() {
    let Some(mut kernel) = Kernel::new() else { return };
    for (name, scenario) in SCENARIOS {
        println!("{name}");
        scenario(&mut kernel);
    }
}
