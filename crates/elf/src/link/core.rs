//! CO-RE relocations: constants and offsets that depend on the layout of the running kernel's types
//! (record format: kernel `struct bpf_core_relo`; meaning: libbpf's documented behaviour).

mod compat;
mod field;
mod patch;
mod spec;

pub(crate) use compat::{essential_name, is_compatible};

use super::error::{LinkError, invalid};
use crate::btf::ext::Record;
use crate::btf::{Btf, BtfError, Type};
use field::Field;
use karakoram_bpf::encode::Slot;
use spec::Spec;
use std::collections::HashMap;

/// `enum bpf_core_relo_kind`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Question {
    FieldOffset,
    FieldSize,
    FieldExists,
    FieldSigned,
    FieldLeftShift,
    FieldRightShift,
    LocalTypeId,
    TargetTypeId,
    TypeExists,
    TypeSize,
    VariantExists,
    VariantValue,
    TypeMatches,
}

impl Question {
    const ALL: [Question; 13] = [
        Question::FieldOffset,
        Question::FieldSize,
        Question::FieldExists,
        Question::FieldSigned,
        Question::FieldLeftShift,
        Question::FieldRightShift,
        Question::LocalTypeId,
        Question::TargetTypeId,
        Question::TypeExists,
        Question::TypeSize,
        Question::VariantExists,
        Question::VariantValue,
        Question::TypeMatches,
    ];

    fn is_about_fields(self) -> bool {
        (self as u32) <= Question::FieldRightShift as u32
    }

    fn is_about_variants(self) -> bool {
        matches!(self, Question::VariantExists | Question::VariantValue)
    }
}

/// The answer for one program and one kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Answer {
    /// What the compiler put into the instruction; `None` when that is not checked.
    expected: Option<u64>,
    /// What belongs there; `None` when the instruction must never run.
    value: Option<u64>,
    /// Size of the field here and in the kernel, when an access must be made that wide.
    resize: Option<Resize>,
}

/// A field that has another size in the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Resize {
    from: u32,
    to: u32,
    /// Whether a zero-extending load of another size still yields the value.
    is_sound: bool,
}

/// Answers CO-RE questions for one object and one kernel.
pub(crate) struct Engine<'a> {
    local: &'a Btf,
    kernel: Option<&'a Btf>,
    /// Types of the kernel by local root type.
    candidates: HashMap<u32, Vec<u32>>,
    answers: HashMap<(u32, String, Question), Answer>,
}

impl<'a> Engine<'a> {
    pub fn new(local: &'a Btf, kernel: Option<&'a Btf>) -> Engine<'a> {
        Engine { local, kernel, candidates: HashMap::new(), answers: HashMap::new() }
    }

    /// Applies one record to the slots of its instruction.
    pub fn apply(&mut self, record: &Record, slots: &mut [Slot]) -> Result<(), LinkError> {
        let Some(&question) = Question::ALL.get(record.word(3) as usize) else {
            return invalid(format!("CO-RE relocation of unknown kind {}", record.word(3)));
        };
        let root = record.word(1);
        let Some(path) = self.local.string(record.word(2)) else {
            return invalid("a CO-RE relocation has a path outside the strings");
        };
        let key = (root, path.to_string(), question);
        let answer = match self.answers.get(&key) {
            Some(answer) => answer.clone(),
            None => {
                let answer = self.answer(root, path, question).map_err(|e| self.explain(root, path, &e))?;
                self.answers.insert(key, answer.clone());
                answer
            }
        };
        patch::apply(&answer, slots).map_err(|e| self.explain(root, path, &e))
    }

    fn explain(&self, root: u32, path: &str, error: &LinkError) -> LinkError {
        if matches!(error, LinkError::Missing(_)) {
            return error.clone();
        }
        let name = self.local.get(root).map_or("?", |t| t.name);
        LinkError::Invalid(format!("CO-RE relocation of type {name}, path {path}: {error}"))
    }

    fn answer(&mut self, root: u32, path: &str, question: Question) -> Result<Answer, LinkError> {
        if question == Question::LocalTypeId {
            return Ok(Answer { expected: None, value: Some(root as u64), resize: None });
        }
        let spec = Spec::parse(self.local, root, path, question)?;
        let Some(kernel) = self.kernel else {
            return super::error::missing("BTF, which the program needs (CO-RE)");
        };
        let local = self.local;
        let mut answer: Option<Answer> = None;
        for &candidate in self.candidates(root, kernel)? {
            let Some(found) = spec.find(local, kernel, candidate, question)? else { continue };
            let this = resolve(local, &spec, Some((kernel, &found)), question)?;
            if answer.as_ref().is_some_and(|a| *a != this) {
                return invalid("the kernel has several such types, which differ");
            }
            answer = Some(this);
        }
        match answer {
            Some(answer) => Ok(answer),
            None => resolve(local, &spec, None, question),
        }
    }

    /// Types of the kernel that have the name and kind of a local type.
    fn candidates(&mut self, root: u32, kernel: &Btf) -> Result<&[u32], LinkError> {
        if !self.candidates.contains_key(&root) {
            let local = self.local.get(root)?;
            let name = essential_name(local.name);
            if name.is_empty() {
                return invalid("the type has no name");
            }
            let fits =
                |t: &Type| t.name.starts_with(name) && essential_name(t.name) == name && compat::same_kind(&local, t);
            self.candidates.insert(root, kernel.types().filter(fits).map(|t| t.id).collect());
        }
        Ok(&self.candidates[&root])
    }
}

/// The answer to a question, given what was found in the kernel.
fn resolve(local: &Btf, spec: &Spec, found: Option<(&Btf, &Spec)>, question: Question) -> Result<Answer, LinkError> {
    if question.is_about_fields() {
        return fields(local, spec, found, question);
    }
    let value_in = |btf: &Btf, spec: &Spec| -> Result<u64, BtfError> {
        Ok(match question {
            Question::TargetTypeId => spec.root as u64,
            Question::TypeSize => btf.size_of(spec.root)? as u64,
            Question::VariantValue => spec.variant.unwrap_or(0),
            _ => 1,
        })
    };
    // Numbers of types change whenever objects are linked.
    let is_checked = question != Question::TargetTypeId;
    let expected = if is_checked { Some(value_in(local, spec)?) } else { None };
    let value = match found {
        Some((kernel, found)) => Some(value_in(kernel, found)?),
        None if question == Question::VariantValue => None,
        None => Some(0),
    };
    Ok(Answer { expected, value, resize: None })
}

fn fields(local: &Btf, spec: &Spec, found: Option<(&Btf, &Spec)>, question: Question) -> Result<Answer, LinkError> {
    let here = Field::new(local, spec)?;
    let expected = here.value(question)?.filter(|_| !here.is_bit_field);
    let Some((kernel, found)) = found else {
        let value = (question == Question::FieldExists).then_some(0);
        return Ok(Answer { expected, value, resize: None });
    };
    let there = Field::new(kernel, found)?;
    let Some(value) = there.value(question)? else {
        return invalid("the question makes no sense for an array element");
    };
    let plain = question == Question::FieldOffset && !here.is_bit_field && !there.is_bit_field;
    let resize = (plain && here.bytes != there.bytes).then(|| Resize {
        from: here.bytes,
        to: there.bytes,
        is_sound: here.may_resize() && there.may_resize() && here.kind == there.kind,
    });
    Ok(Answer { expected, value: Some(value), resize })
}
