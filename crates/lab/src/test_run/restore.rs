//! Many runs in one call of a program that changes its packet or its context.
//!
//! The kernel gives every run of a call what the run before it left. So another program goes first: it puts
//! back what a run is known to change, with a few stores, and goes on to the program by a tail call. All
//! versions get the same one, and its time, some nanoseconds, is part of what is measured.

use karakoram_bpf::hook::ProgramType;
use karakoram_bpf::text::asm;
use karakoram_kernel::load::{self, LoadRequest, LoadedProgram};
use karakoram_kernel::map::{MapSet, MapSetOptions};
use karakoram_kernel::run::RunInput;
use std::fmt::Write as _;
use std::os::fd::AsFd;

/// Most words that are put back.
const MOST_WORDS: usize = 64;
/// Where `struct xdp_md` and `struct __sk_buff` say where the packet is and where it ends.
const XDP_PACKET: [usize; 2] = [0, 4];
const SKB_PACKET: [usize; 2] = [76, 80];
/// Fields of `struct __sk_buff` that some types of programs write to: `mark`, `queue_mapping`, `priority`, `tc_index`,
/// `cb` and `tc_classid`.
const SKB_FIELDS: [usize; 10] = [8, 12, 32, 44, 48, 52, 56, 60, 64, 72];

/// What has to be put back before each run: the program that does it, as text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Restore {
    source: String,
}

/// A program that puts back and goes on to another.
pub struct Restoring {
    program: LoadedProgram,
    _maps: MapSet,
}

/// Which end of the packet a run has moved.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Head,
    Tail,
}

/// Bytes to put back, and where.
#[derive(PartialEq, Eq, Debug)]
struct Word {
    at: usize,
    bytes: Vec<u8>,
}

impl Restore {
    /// Ways to put back what a run with `input` has left, to be tried one after the other. `packet` is the packet
    /// as the run left it, `context` its context.
    pub fn candidates(kind: ProgramType, input: &RunInput, packet: &[u8], context: &[u8]) -> Vec<Restore> {
        let is_xdp = kind == ProgramType::XDP;
        let can_write = is_xdp || [ProgramType::SCHED_CLS, ProgramType::SCHED_ACT].contains(&kind);
        // Other types of programs leave their packet alone, and may see only a part of it.
        let packet = if can_write { packet } else { &input.data };
        let moved = input.data.len() as i64 - packet.len() as i64;
        let ends: &[Option<End>] = match moved {
            0 => &[None],
            _ if is_xdp => &[Some(End::Head), Some(End::Tail)],
            _ => &[],
        };
        // What XDP finds in its context follows from the packet.
        let known = |bytes: &[u8]| bytes.iter().copied().map(Some).collect::<Vec<_>>();
        let mut fields = if is_xdp { Vec::new() } else { differing(&input.ctx, &known(context)) };
        fields.retain(|word| SKB_FIELDS.contains(&word.at));
        let one = |end: &Option<End>| {
            let words = differing(&input.data, &moved_back(&known(packet), *end, moved));
            let is_short = words.len() + fields.len() <= MOST_WORDS;
            let place = if is_xdp { XDP_PACKET } else { SKB_PACKET };
            let source = source(place, end.map(|end| (end, moved, input.data.len())), &words, &fields);
            is_short.then_some(Restore { source })
        };
        ends.iter().filter_map(one).collect()
    }

    /// The program that goes on to this one; the kernel's reason where it does not take it.
    pub fn before(&self, program: &LoadedProgram) -> Result<Restoring, String> {
        let text = asm::parse(&self.source).map_err(|e| e.to_string())?;
        let slots = text.to_slots().map_err(|e| e.to_string())?;
        let maps = MapSet::create(&text.maps, &MapSetOptions::default()).map_err(|e| e.to_string())?;
        let request = LoadRequest::like("restore", program, &slots);
        let loaded = load::load(&request.with_maps(&maps)).map_err(|e| e.to_string())?;
        let next = maps.named("next").ok_or("there is no map")?;
        next.update_fd(&0u32.to_ne_bytes(), program.as_fd()).map_err(|e| e.to_string())?;
        Ok(Restoring { program: loaded, _maps: maps })
    }
}

impl Restoring {
    /// What is to be run.
    pub fn program(&self) -> &LoadedProgram {
        &self.program
    }
}

/// The packet when its end is where it was; what bytes hold that come back is not known.
fn moved_back(packet: &[Option<u8>], end: Option<End>, moved: i64) -> Vec<Option<u8>> {
    let fresh = vec![None; moved.max(0) as usize];
    let dropped = (-moved).max(0) as usize;
    match end {
        Some(End::Head) => [&fresh, &packet[dropped..]].concat(),
        _ => [&packet[..packet.len() - dropped], &fresh].concat(),
    }
}

/// Words of four bytes (fewer at the end) in which `after` is not `before`.
fn differing(before: &[u8], after: &[Option<u8>]) -> Vec<Word> {
    let words = before.chunks(4).zip(after.chunks(4)).enumerate();
    let differs = |(was, is): (&[u8], &[Option<u8>])| was.iter().zip(is).any(|(was, is)| Some(*was) != *is);
    words.filter(|(_, pair)| differs(*pair)).map(|(n, (was, _))| Word { at: 4 * n, bytes: was.to_vec() }).collect()
}

/// The program's text. `place`: where the context says where the packet is; `end`: which end has moved, how far back it
/// goes, and how long the packet is then.
fn source(place: [usize; 2], end: Option<(End, i64, usize)>, packet: &[Word], fields: &[Word]) -> String {
    let mut lines = vec![".map next type=prog_array key=4 value=4 entries=1".to_string(), "r6 = r1".into()];
    let load_packet = place.iter().zip(["r2", "r3"]).map(|(at, to)| format!("{to} = *(u32 *)(r6 + {at})"));
    let load_packet: Vec<String> = load_packet.collect();
    if let Some((end, moved, length)) = end {
        // The first run of a call finds the packet as it was given.
        let (helper, by) = match end {
            End::Head => ("bpf_xdp_adjust_head", -moved),
            End::Tail => ("bpf_xdp_adjust_tail", moved),
        };
        lines.extend(load_packet.clone());
        lines.extend(["r3 -= r2".into(), format!("if r3 == {length} goto there")]);
        lines.extend(["r1 = r6".into(), format!("r2 = {by}"), format!("call {helper}"), "there:".into()]);
    }
    if let Some(last) = packet.last() {
        lines.extend(load_packet);
        let end = last.at + last.bytes.len();
        lines.extend(["r4 = r2".into(), format!("r4 += {end}"), "if r4 > r3 goto next".into()]);
        lines.extend(packet.iter().flat_map(|word| stores(word, "r2")));
    }
    for word in fields {
        lines.push(format!("r1 = {}", number(&word.bytes)));
        lines.push(format!("*(u32 *)(r6 + {}) = r1", word.at));
    }
    lines.extend(
        ["next:", "r1 = r6", "r2 = map[next] ll", "r3 = 0", "call bpf_tail_call", "r0 = 0", "exit"].map(String::from),
    );
    lines.iter().fold(String::new(), |mut out, line| {
        writeln!(out, "{line}").expect("a string takes it");
        out
    })
}

/// Stores of a word of the packet at a register.
fn stores(word: &Word, base: &str) -> Vec<String> {
    match word.bytes.len() {
        4 => vec![format!("*(u32 *)({base} + {}) = {}", word.at, number(&word.bytes))],
        _ => word
            .bytes
            .iter()
            .enumerate()
            .map(|(n, byte)| format!("*(u8 *)({base} + {}) = {byte}", word.at + n))
            .collect(),
    }
}

fn number(bytes: &[u8]) -> i32 {
    bytes.iter().rev().fold(0, |sum, byte| sum << 8 | i32::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(data: &[u8]) -> RunInput {
        RunInput { data: data.to_vec(), ..RunInput::default() }
    }

    #[test]
    fn words_that_differ_are_put_back() {
        let before = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
        let mut after = before;
        (after[5], after[9]) = (0, 0);
        let found = Restore::candidates(ProgramType::XDP, &input(&before), &after, &[]);
        assert_eq!(found.len(), 1);
        let text = &found[0].source;
        for line in ["*(u32 *)(r2 + 4) = 134678021", "*(u8 *)(r2 + 8) = 9", "*(u8 *)(r2 + 9) = 10", "r4 += 10"] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
        assert!(!text.contains("(r2 + 0)"));
        assert!(asm::parse(text).is_ok());
    }

    #[test]
    fn either_end_may_have_moved() {
        let found = Restore::candidates(ProgramType::XDP, &input(&[1; 20]), &[1; 28], &[]);
        let adjust = |n: usize| {
            found[n].source.lines().filter(|l| l.starts_with("r2 = ") || l.contains("adjust")).collect::<Vec<_>>()
        };
        assert_eq!(adjust(0)[1..3], ["r2 = 8", "call bpf_xdp_adjust_head"]);
        assert_eq!(adjust(1)[1..3], ["r2 = -8", "call bpf_xdp_adjust_tail"]);
        assert!(found.iter().all(|r| asm::parse(&r.source).is_ok()));
        // What comes back at an end is not what it was.
        let cut = Restore::candidates(ProgramType::XDP, &input(&[1; 20]), &[1; 12], &[]);
        assert!(cut[0].source.contains("*(u32 *)(r2 + 4) = 16843009") && !cut[0].source.contains("(r2 + 8)"));
        assert!(cut[1].source.contains("*(u32 *)(r2 + 12) = 16843009") && !cut[1].source.contains("(r2 + 8)"));
    }

    #[test]
    fn packets_that_cannot_be_written_to_are_left_alone() {
        let found = Restore::candidates(ProgramType::SOCKET_FILTER, &input(&[1; 20]), &[2; 6], &[]);
        assert!(!found[0].source.contains("r2 +"));
        assert!(Restore::candidates(ProgramType::SCHED_CLS, &input(&[1; 20]), &[1; 24], &[]).is_empty());
        let marked = RunInput { ctx: vec![0; 12], ..input(&[1; 20]) };
        let found =
            Restore::candidates(ProgramType::SOCKET_FILTER, &marked, &[1; 20], &[0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0]);
        assert!(found[0].source.contains("r1 = 0\n*(u32 *)(r6 + 8) = r1"));
    }
}
