//! An ELF file as header, sections and the bytes between them, so that writing it unchanged gives
//! the same bytes, and writing it with shorter or longer sections moves only what follows them.

use crate::bytes::{align_up, array, put, text_at, u16_at, u32_at, u64_at};
use crate::error::{ElfError, malformed, unsupported};

const HEADER_BYTES: usize = 64;
const SECTION_HEADER_BYTES: usize = 64;
/// clang gives one section to each program; the largest objects met have a few hundred.
const MAX_SECTIONS: usize = 20_000;
/// Largest file read.
const MAX_FILE_BYTES: usize = 1 << 30;
const MACHINE_BPF: u16 = 247;
const TYPE_RELOCATABLE: u16 = 1;

/// `sh_type` values this crate treats specially.
pub(crate) mod section_kind {
    pub const PROGBITS: u32 = 1;
    pub const SYMTAB: u32 = 2;
    pub const RELA: u32 = 4;
    pub const NOBITS: u32 = 8;
    pub const REL: u32 = 9;
}

/// `sh_flags` bit: the section holds instructions.
const FLAG_EXECUTE: u64 = 4;

/// A section: its header, and its bytes verbatim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Section {
    /// Name.
    pub name: String,
    /// `sh_type`.
    pub kind: u32,
    /// `sh_flags`.
    pub flags: u64,
    /// `sh_link`.
    pub link: u32,
    /// `sh_info`.
    pub info: u32,
    /// `sh_addralign`.
    pub align: u64,
    /// `sh_size`; for sections without bytes in the file, their size in memory.
    pub size: u64,
    /// Contents; empty for `.bss`-like sections.
    pub data: Vec<u8>,
    name_offset: u32,
    address: u64,
    offset: u64,
    entry_size: u64,
}

impl Section {
    fn parse(file: &[u8], at: usize) -> Option<Section> {
        Some(Section {
            name: String::new(),
            name_offset: u32_at(file, at)?,
            kind: u32_at(file, at + 4)?,
            flags: u64_at(file, at + 8)?,
            address: u64_at(file, at + 16)?,
            offset: u64_at(file, at + 24)?,
            size: u64_at(file, at + 32)?,
            link: u32_at(file, at + 40)?,
            info: u32_at(file, at + 44)?,
            align: u64_at(file, at + 48)?,
            entry_size: u64_at(file, at + 56)?,
            data: Vec::new(),
        })
    }

    fn header_bytes(&self, offset: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(SECTION_HEADER_BYTES);
        out.extend(self.name_offset.to_le_bytes());
        out.extend(self.kind.to_le_bytes());
        for field in [self.flags, self.address, offset, self.size] {
            out.extend(field.to_le_bytes());
        }
        out.extend(self.link.to_le_bytes());
        out.extend(self.info.to_le_bytes());
        out.extend(self.align.to_le_bytes());
        out.extend(self.entry_size.to_le_bytes());
        out
    }

    /// Whether it holds instructions.
    pub fn is_code(&self) -> bool {
        self.kind == section_kind::PROGBITS && self.flags & FLAG_EXECUTE != 0
    }

    /// Whether it occupies bytes of the file.
    fn is_stored(&self) -> bool {
        self.kind != section_kind::NOBITS && self.size > 0
    }

    /// Replaces the contents.
    pub(crate) fn set_data(&mut self, data: Vec<u8>) {
        self.size = data.len() as u64;
        self.data = data;
    }
}

/// What lies at one place of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Content {
    Header,
    SectionTable,
    Section(usize),
    /// Bytes that belong to nothing and are more than padding.
    Gap(Vec<u8>),
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Piece {
    start: usize,
    end: usize,
    content: Content,
}

/// An ELF file taken apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Container {
    header: [u8; HEADER_BYTES],
    /// Sections in the order of the section table, the null section first.
    pub sections: Vec<Section>,
    /// In file order, without overlap; only padding lies between them.
    pieces: Vec<Piece>,
}

impl Container {
    /// Takes a 64-bit little-endian relocatable BPF object apart.
    pub fn parse(file: &[u8]) -> Result<Container, ElfError> {
        if file.len() > MAX_FILE_BYTES {
            return unsupported(format!("{} bytes, more than {MAX_FILE_BYTES}", file.len()));
        }
        let header = check_header(file)?;
        let table = u64_at(file, 40).unwrap_or(0);
        let count = u16_at(file, 60).unwrap_or(0) as usize;
        if u16_at(file, 58) != Some(SECTION_HEADER_BYTES as u16) || table == 0 || count == 0 || count > MAX_SECTIONS {
            return unsupported("no section table, or one of an unusual shape");
        }
        let table = usize::try_from(table).unwrap_or(usize::MAX);
        let table_bytes = count * SECTION_HEADER_BYTES;
        if table.checked_add(table_bytes).is_none_or(|end| end > file.len()) {
            return malformed("the section table lies outside the file");
        }
        let mut sections = Vec::with_capacity(count);
        for i in 0..count {
            let Some(section) = Section::parse(file, table + i * SECTION_HEADER_BYTES) else {
                return malformed(format!("section header {i} is cut off"));
            };
            sections.push(section);
        }
        let pieces = pieces(file, table, table_bytes, &sections)?;
        for piece in &pieces {
            if let Content::Section(i) = piece.content
                && piece.start < piece.end
            {
                sections[i].data = file[piece.start..piece.end].to_vec();
            }
        }
        name_sections(&mut sections, u16_at(file, 62).unwrap_or(0) as usize)?;
        Ok(Container { header, sections, pieces })
    }

    /// Position of the first section of that name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.sections.iter().position(|s| s.name == name)
    }

    /// The file; what was not edited keeps its bytes, and its place unless something before it changed size.
    pub fn write(&self) -> Vec<u8> {
        let starts = self.new_starts();
        let end = |p: usize| starts[p] + self.new_len(&self.pieces[p]);
        let mut out = vec![0; self.pieces.len().checked_sub(1).map_or(0, end)];
        for (piece, &start) in self.pieces.iter().zip(&starts) {
            let bytes: Vec<u8> = match &piece.content {
                Content::Header => self.header.to_vec(),
                Content::Section(i) => self.sections[*i].data.clone(),
                Content::Gap(bytes) => bytes.clone(),
                Content::SectionTable => self.section_table(&starts),
            };
            out[start..start + bytes.len()].copy_from_slice(&bytes);
        }
        if let Some(table) = self.pieces.iter().position(|p| p.content == Content::SectionTable) {
            let at = (starts[table] as u64).to_le_bytes();
            put(&mut out, 40, &at).expect("the header is at least 64 bytes long");
        }
        out
    }

    fn new_len(&self, piece: &Piece) -> usize {
        match &piece.content {
            Content::Section(i) => self.sections[*i].data.len(),
            _ => piece.end - piece.start,
        }
    }

    /// Where every piece begins now. Padding is made anew.
    fn new_starts(&self) -> Vec<usize> {
        if self.pieces.iter().all(|p| self.new_len(p) == p.end - p.start) {
            return self.pieces.iter().map(|p| p.start).collect();
        }
        let mut starts = Vec::with_capacity(self.pieces.len());
        let mut at = 0;
        for piece in &self.pieces {
            at = align_up(at, alignment(piece, &self.sections)).unwrap_or(at);
            starts.push(at);
            at += self.new_len(piece);
        }
        starts
    }

    fn section_table(&self, starts: &[usize]) -> Vec<u8> {
        // What has no place in the file keeps its offset, which means nothing.
        let mut offsets: Vec<u64> = self.sections.iter().map(|s| s.offset).collect();
        for (piece, &start) in self.pieces.iter().zip(starts) {
            if let Content::Section(i) = piece.content {
                offsets[i] = start as u64;
            }
        }
        self.sections.iter().zip(offsets).flat_map(|(s, offset)| s.header_bytes(offset)).collect()
    }
}

/// The alignment of a piece in the file; one that the input did not honour is not honoured either.
fn alignment(piece: &Piece, sections: &[Section]) -> usize {
    let align = match &piece.content {
        Content::Section(i) => sections[*i].align,
        Content::SectionTable => 8,
        _ => 1,
    };
    let align = usize::try_from(align).unwrap_or(1).max(1);
    if align.is_power_of_two() && piece.start.is_multiple_of(align) { align } else { 1 }
}

fn check_header(file: &[u8]) -> Result<[u8; HEADER_BYTES], ElfError> {
    if !file.starts_with(b"\x7fELF") {
        return unsupported("not an ELF file");
    }
    let Some(header) = array::<HEADER_BYTES>(file, 0) else {
        return malformed("the ELF header is cut off");
    };
    if header[4] != 2 {
        return unsupported("not a 64-bit ELF file");
    }
    if header[5] != 1 {
        return unsupported("big-endian ELF files are not handled");
    }
    if u16_at(file, 18) != Some(MACHINE_BPF) {
        return unsupported("compiled for another machine than BPF");
    }
    if u16_at(file, 16) != Some(TYPE_RELOCATABLE) {
        return unsupported("not a relocatable object");
    }
    Ok(header)
}

fn pieces(file: &[u8], table: usize, table_bytes: usize, sections: &[Section]) -> Result<Vec<Piece>, ElfError> {
    let mut stored = vec![
        Piece { start: 0, end: HEADER_BYTES, content: Content::Header },
        Piece { start: table, end: table + table_bytes, content: Content::SectionTable },
    ];
    for (i, section) in sections.iter().enumerate().skip(1) {
        // A section without bytes has its place too, as long as that is a sensible one.
        if !section.is_stored() {
            let start = usize::try_from(section.offset).ok().filter(|start| *start <= file.len());
            stored.extend(start.map(|start| Piece { start, end: start, content: Content::Section(i) }));
            continue;
        }
        let range = usize::try_from(section.offset)
            .ok()
            .zip(usize::try_from(section.size).ok())
            .and_then(|(start, size)| Some((start, start.checked_add(size)?)))
            .filter(|(_, end)| *end <= file.len());
        let Some((start, end)) = range else {
            return malformed(format!("section {i} lies outside the file"));
        };
        stored.push(Piece { start, end, content: Content::Section(i) });
    }
    stored.sort_by_key(|p| (p.start, p.end));
    let mut pieces = Vec::with_capacity(stored.len() * 2);
    let mut at = 0;
    for piece in stored {
        if piece.start < at && piece.start == piece.end {
            continue;
        }
        if piece.start < at {
            return malformed(format!("two parts of the file overlap at offset {}", piece.start));
        }
        let gap = &file[at..piece.start];
        let padding = align_up(at, alignment(&piece, sections)) == Some(piece.start) && gap.iter().all(|b| *b == 0);
        if !padding {
            pieces.push(Piece { start: at, end: piece.start, content: Content::Gap(gap.to_vec()) });
        }
        at = piece.end;
        pieces.push(piece);
    }
    if at < file.len() {
        pieces.push(Piece { start: at, end: file.len(), content: Content::Gap(file[at..].to_vec()) });
    }
    Ok(pieces)
}

fn name_sections(sections: &mut [Section], names: usize) -> Result<(), ElfError> {
    let Some(names) = sections.get(names).map(|s| s.data.clone()) else {
        return malformed("the table of section names does not exist");
    };
    for (i, section) in sections.iter_mut().enumerate().skip(1) {
        match text_at(&names, section.name_offset as usize) {
            Some(name) => section.name = name.to_string(),
            None => return malformed(format!("section {i} has no readable name")),
        }
    }
    Ok(())
}
