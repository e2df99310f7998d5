//! What a CO-RE relocation is about: a type, a named value of an enumeration, or a path of members
//! and array elements; and the same thing in another set of types.

use super::Question;
use super::compat::{self, essential_name};
use crate::btf::{Array, Btf};
use crate::link::error::{LinkError, invalid};

/// Longest path, and deepest nesting of anonymous members.
const MAX_DEPTH: usize = 64;

/// One step of a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Step {
    /// The structure of a member, or the type of an array element; qualifiers and typedefs removed.
    pub ty: u32,
    /// Number of the member or element.
    pub index: u32,
    /// Whether it is a named member; anonymous ones are no steps of their own.
    pub is_member: bool,
}

/// A resolved subject.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Spec {
    /// The type at the start.
    pub root: u32,
    /// Named members and array elements on the way, the root as element of an array first.
    pub steps: Vec<Step>,
    /// Bits from the start of the root.
    pub bit_offset: u64,
    /// Value of the enumeration's named value.
    pub variant: Option<u64>,
    /// Name of it.
    variant_name: String,
}

impl Spec {
    fn new(root: u32) -> Spec {
        Spec { root, steps: Vec::new(), bit_offset: 0, variant: None, variant_name: String::new() }
    }

    /// Reads a path such as `0:1:3`.
    pub fn parse(btf: &Btf, root: u32, path: &str, question: Question) -> Result<Spec, LinkError> {
        let numbers: Result<Vec<u32>, _> = path.split(':').map(str::parse).collect();
        let Ok(numbers) = numbers else {
            return invalid("the path is not made of numbers");
        };
        if numbers.len() > MAX_DEPTH {
            return invalid("the path is too long");
        }
        let mut spec = Spec::new(root);
        if question.is_about_variants() {
            let variant = btf.resolve(root)?.variants().nth(numbers[0] as usize).filter(|_| numbers.len() == 1);
            let Some(variant) = variant else {
                return invalid("the path names no value of an enumeration");
            };
            spec.variant = Some(variant.value);
            spec.variant_name = essential_name(variant.name).to_string();
        } else if question.is_about_fields() {
            let start = btf.resolve(root)?.id;
            spec.push_element(btf, start, numbers[0])?;
            let mut at = start;
            for &number in &numbers[1..] {
                at = spec.walk(btf, at, number)?;
            }
        } else if numbers != [0] {
            return invalid("a question about a type has a path");
        }
        Ok(spec)
    }

    fn push_element(&mut self, btf: &Btf, ty: u32, index: u32) -> Result<(), LinkError> {
        // The root may be of a type without a size when its first element is meant.
        let size = if index == 0 { 0 } else { btf.size_of(ty)? };
        self.bit_offset += index as u64 * size as u64 * 8;
        self.steps.push(Step { ty, index, is_member: false });
        Ok(())
    }

    /// One number of a path, from the type it is applied to, to the type it leads to.
    fn walk(&mut self, btf: &Btf, at: u32, number: u32) -> Result<u32, LinkError> {
        let ty = btf.resolve(at)?;
        if let Some(array) = ty.array() {
            if number >= array.count && !self.is_flexible(btf, array) {
                return invalid("the path leaves an array");
            }
            let element = btf.resolve(array.element)?.id;
            self.push_element(btf, element, number)?;
            return Ok(element);
        }
        let Some(member) = ty.members().nth(number as usize) else {
            return invalid("the path names no member");
        };
        self.bit_offset += member.bit_offset as u64;
        if !member.name.is_empty() {
            self.steps.push(Step { ty: ty.id, index: number, is_member: true });
        }
        Ok(member.ty)
    }

    /// Whether an array, which the path has just come to, may have any length: the empty last member
    /// of a structure.
    fn is_flexible(&self, btf: &Btf, array: Array) -> bool {
        let Some(step) = self.steps.last().filter(|s| s.is_member && array.count == 0) else { return false };
        btf.get(step.ty).is_ok_and(|t| t.count() == step.index as usize + 1)
    }

    /// The same subject in the kernel's types, starting from a type that has the root's name.
    pub fn find(
        &self,
        local: &Btf,
        kernel: &Btf,
        candidate: u32,
        question: Question,
    ) -> Result<Option<Spec>, LinkError> {
        let mut found = Spec::new(candidate);
        if question.is_about_variants() {
            let ty = kernel.resolve(candidate)?;
            let variant = ty.variants().find(|v| essential_name(v.name) == self.variant_name);
            found.variant = variant.map(|v| v.value);
            return Ok(variant.is_some().then_some(found));
        }
        if !question.is_about_fields() {
            let fits = match question {
                Question::TypeMatches => compat::matches(local, self.root, kernel, candidate)?,
                _ => compat::is_compatible(local, self.root, kernel, candidate)?,
            };
            return Ok(fits.then_some(found));
        }
        let mut at = candidate;
        for (n, step) in self.steps.iter().enumerate() {
            let next = match step.is_member {
                true => found.find_member(local, step, kernel, at, MAX_DEPTH)?,
                false => found.find_element(kernel, at, step.index, n == 0)?,
            };
            match next {
                Some(next) => at = next,
                None => return Ok(None),
            }
        }
        Ok(Some(found))
    }

    fn find_element(&mut self, kernel: &Btf, at: u32, index: u32, is_root: bool) -> Result<Option<u32>, LinkError> {
        let mut ty = kernel.resolve(at)?;
        if !is_root {
            let Some(array) = ty.array() else { return Ok(None) };
            if index >= array.count && !self.is_flexible(kernel, array) {
                return Ok(None);
            }
            ty = kernel.resolve(array.element)?;
        }
        self.push_element(kernel, ty.id, index)?;
        Ok(Some(ty.id))
    }

    /// Looks for a member of the same name and of a compatible type, also inside anonymous members.
    fn find_member(
        &mut self,
        local: &Btf,
        step: &Step,
        kernel: &Btf,
        at: u32,
        depth: usize,
    ) -> Result<Option<u32>, LinkError> {
        let Some(depth) = depth.checked_sub(1) else {
            return invalid("the kernel's type is nested too deeply");
        };
        let Some(wanted) = local.get(step.ty)?.members().nth(step.index as usize) else { return Ok(None) };
        let ty = kernel.resolve(at)?;
        for (index, member) in ty.members().enumerate() {
            let before = self.bit_offset;
            self.bit_offset += member.bit_offset as u64;
            if member.name.is_empty() {
                if let Some(found) = self.find_member(local, step, kernel, member.ty, depth)? {
                    return Ok(Some(found));
                }
            } else if member.name == wanted.name {
                self.steps.push(Step { ty: ty.id, index: index as u32, is_member: true });
                if compat::fields_compatible(local, wanted.ty, kernel, member.ty)? {
                    return Ok(Some(member.ty));
                }
                self.steps.pop();
                return Ok(None);
            }
            self.bit_offset = before;
        }
        Ok(None)
    }
}
