//! Cells of the types that contain other values.

use super::{CellError, decode_at, encode_at, validate_at, vint};
use crate::{Type, Value, order};

/// Length that marks a null field in a tuple or UDT.
pub(super) const NULL_LENGTH: i32 = -1;
const LENGTH_BYTES: usize = 4;

/// Visitor of the parts of one cell (such as the elements of a list) in order. `None` is a null
/// part.
type Visit<'v, 'a> = &'v mut dyn FnMut(&Type, Option<&'a [u8]>) -> Result<(), CellError>;

/// Returns the size in bytes of a vector's element of type `ty`, or `None` if values of the type
/// differ in size.
///
/// Cassandra treats tinyint, smallint, date and time as types of variable size (CASSANDRA-18504).
fn fixed_size(ty: &Type) -> Option<usize> {
    match ty {
        Type::Boolean => Some(1),
        Type::Int | Type::Float => Some(4),
        Type::BigInt | Type::Double | Type::Timestamp => Some(8),
        Type::Uuid | Type::TimeUuid => Some(16),
        Type::Vector(element, dimension) => Some(fixed_size(element)? * usize::from(*dimension)),
        _ => None,
    }
}

/// Splits `cell` into the parts that `ty` requires, and calls `visit` for each part, in order. The keys and
/// values of a map alternate.
fn walk<'a>(ty: &Type, cell: &'a [u8], visit: Visit<'_, 'a>) -> Result<(), CellError> {
    let mut rest = cell;
    match ty {
        Type::List(element) | Type::Set(element) => {
            for _ in 0..read_count(ty, &mut rest, 1)? {
                visit(element, Some(read_element(ty, element, &mut rest)?))?;
            }
        }
        Type::Map(key, value) => {
            for _ in 0..read_count(ty, &mut rest, 2)? {
                visit(key, Some(read_element(ty, key, &mut rest)?))?;
                visit(value, Some(read_element(ty, value, &mut rest)?))?;
            }
        }
        Type::Tuple(elements) => walk_fields(ty, elements.iter(), &mut rest, visit)?,
        Type::Udt(udt) => walk_fields(ty, udt.fields.iter().map(|(_, ty)| ty), &mut rest, visit)?,
        Type::Vector(element, dimension) => {
            let size = fixed_size(element);
            for _ in 0..*dimension {
                visit(element, Some(read_vector_element(ty, size, &mut rest)?))?;
            }
        }
        _ => return Err(CellError::wrong_type(ty)),
    }
    if rest.is_empty() {
        Ok(())
    } else {
        Err(CellError::malformed(ty, "bytes follow the value"))
    }
}

/// Calls `visit` for each field of a tuple or UDT. If the cell was written before fields were added
/// to the type, the missing last fields are null.
fn walk_fields<'a, 't>(
    ty: &Type,
    fields: impl ExactSizeIterator<Item = &'t Type>,
    rest: &mut &'a [u8],
    visit: Visit<'_, 'a>,
) -> Result<(), CellError> {
    if rest.is_empty() && fields.len() > 0 {
        return Err(CellError::malformed(ty, "no bytes"));
    }
    for field in fields {
        let part = if rest.is_empty() {
            None
        } else {
            match read_i32(ty, rest)? {
                NULL_LENGTH => None,
                length => Some(take(ty, rest, length)?),
            }
        };
        visit(field, part)?;
    }
    Ok(())
}

fn read_i32(ty: &Type, rest: &mut &[u8]) -> Result<i32, CellError> {
    let (bytes, tail) = rest
        .split_first_chunk::<4>()
        .ok_or_else(|| CellError::malformed(ty, "it ends within a length"))?;
    *rest = tail;
    Ok(i32::from_be_bytes(*bytes))
}

/// Reads the count of entries at the start of a collection; each entry has `parts` parts. Checks
/// the count against the remaining bytes, so that a forged count allocates no memory.
fn read_count(ty: &Type, rest: &mut &[u8], parts: usize) -> Result<usize, CellError> {
    let count = read_i32(ty, rest)?;
    usize::try_from(count)
        .ok()
        .filter(|count| count.saturating_mul(parts * 4) <= rest.len())
        .ok_or_else(|| CellError::malformed(ty, format!("{count} entries do not fit its bytes")))
}

fn read_element<'a>(ty: &Type, element: &Type, rest: &mut &'a [u8]) -> Result<&'a [u8], CellError> {
    let length = read_i32(ty, rest)?;
    if length == NULL_LENGTH {
        return Err(CellError::malformed(ty, "null inside"));
    }
    if length == 0 && !element.is_nested() && !has_empty_value(element) {
        return Err(CellError::malformed(
            ty,
            format!("{} of no bytes inside", element.with_article()),
        ));
    }
    take(ty, rest, length)
}

/// Returns whether zero bytes are a valid value of a scalar type.
fn has_empty_value(ty: &Type) -> bool {
    matches!(ty, Type::Text | Type::Ascii | Type::Blob)
}

/// Finds fields of tuples and UDTs with zero bytes although their type has no empty value. Appends
/// to `found` the offset of each such field's length. `at` is the offset of `cell` in the outermost
/// cell.
pub(super) fn find_empty_fields(
    ty: &Type,
    cell: &[u8],
    at: usize,
    found: &mut Vec<usize>,
) -> Result<(), CellError> {
    let has_fields = matches!(ty, Type::Tuple(_) | Type::Udt(_));
    walk(ty, cell, &mut |part_type, part| {
        let Some(part) = part else { return Ok(()) };
        let start = at + part.as_ptr().addr() - cell.as_ptr().addr();
        if has_fields && part.is_empty() && !has_empty_value(part_type) {
            found.push(start - LENGTH_BYTES);
        } else if part_type.is_nested() {
            find_empty_fields(part_type, part, start, found)?;
        }
        Ok(())
    })
}

fn read_vector_element<'a>(
    ty: &Type,
    size: Option<usize>,
    rest: &mut &'a [u8],
) -> Result<&'a [u8], CellError> {
    let ends = || CellError::malformed(ty, "it ends within an element");
    let length = match size {
        Some(size) => size,
        None => usize::try_from(vint::read_unsigned(rest).ok_or_else(ends)?).map_err(|_| ends())?,
    };
    let (element, tail) = rest.split_at_checked(length).ok_or_else(ends)?;
    *rest = tail;
    Ok(element)
}

fn take<'a>(ty: &Type, rest: &mut &'a [u8], length: i32) -> Result<&'a [u8], CellError> {
    let (part, tail) = usize::try_from(length)
        .ok()
        .and_then(|length| rest.split_at_checked(length))
        .ok_or_else(|| CellError::malformed(ty, format!("a length of {length} does not fit its bytes")))?;
    *rest = tail;
    Ok(part)
}

/// Checks a cell and all values in it.
pub(super) fn validate(ty: &Type, cell: &[u8], depth_left: usize) -> Result<(), CellError> {
    walk(ty, cell, &mut |part, bytes| {
        bytes.map_or(Ok(()), |bytes| validate_at(part, bytes, depth_left))
    })
}

/// Decodes a cell of a nested type. `depth_left` is the nesting depth that its parts may still
/// have.
pub(super) fn decode(ty: &Type, cell: &[u8], depth_left: usize) -> Result<Value, CellError> {
    let mut parts: Vec<Option<Value>> = Vec::new();
    walk(ty, cell, &mut |part, bytes| {
        parts.push(match bytes {
            Some(bytes) => Some(decode_at(part, bytes, depth_left)?),
            None => None,
        });
        Ok(())
    })?;
    Ok(match ty {
        Type::Tuple(_) => Value::Tuple(parts),
        Type::Udt(_) => Value::Udt(parts),
        // Flattening loses no part: only tuples and UDTs can have null parts, because `walk`
        // rejects null in other types.
        Type::List(_) => Value::List(parts.into_iter().flatten().collect()),
        Type::Set(_) => Value::Set(parts.into_iter().flatten().collect()),
        Type::Vector(..) => Value::Vector(parts.into_iter().flatten().collect()),
        _ => {
            let mut parts = parts.into_iter().flatten();
            let mut entries = Vec::new();
            while let (Some(key), Some(value)) = (parts.next(), parts.next()) {
                entries.push((key, value));
            }
            Value::Map(entries)
        }
    })
}

/// Appends the cell of a value of a nested type.
pub(super) fn encode(
    ty: &Type,
    value: &Value,
    out: &mut Vec<u8>,
    depth_left: usize,
) -> Result<(), CellError> {
    match (ty, value) {
        (Type::List(element), Value::List(values)) | (Type::Vector(element, _), Value::Vector(values)) => {
            write_elements(ty, values, out, |value, out| {
                encode_at(element, value, out, depth_left)
            })
        }
        (Type::Set(element), Value::Set(values)) => encode_set(ty, element, values, out, depth_left),
        (Type::Map(key, value), Value::Map(entries)) => {
            encode_map(ty, (key, value), entries, out, depth_left)
        }
        (Type::Tuple(types), Value::Tuple(values)) => {
            encode_fields(ty, types.iter(), values, out, depth_left)
        }
        (Type::Udt(udt), Value::Udt(values)) => {
            encode_fields(ty, udt.fields.iter().map(|(_, ty)| ty), values, out, depth_left)
        }
        _ => Err(CellError::wrong_type(ty)),
    }
}

/// Appends the cell of a list or a vector. `write` appends the bytes of one element.
fn write_elements<T>(
    ty: &Type,
    elements: &[T],
    out: &mut Vec<u8>,
    mut write: impl FnMut(&T, &mut Vec<u8>) -> Result<(), CellError>,
) -> Result<(), CellError> {
    match ty {
        Type::List(_) => {
            write_length(ty, elements.len(), out)?;
            elements
                .iter()
                .try_for_each(|element| write_part(ty, out, |out| write(element, out)))
        }
        Type::Vector(_, dimension) if elements.len() != usize::from(*dimension) => {
            Err(CellError::malformed(ty, format!("{} elements", elements.len())))
        }
        Type::Vector(element, _) if fixed_size(element).is_some() => {
            elements.iter().try_for_each(|element| write(element, out))
        }
        Type::Vector(..) => {
            let mut cell = Vec::new();
            for element in elements {
                cell.clear();
                write(element, &mut cell)?;
                vint::write_unsigned(cell.len() as u64, out);
                out.extend_from_slice(&cell);
            }
            Ok(())
        }
        _ => Err(CellError::wrong_type(ty)),
    }
}

/// Appends the cell of a list or a vector directly from Rust values, which `write` encodes. On
/// error, appends nothing.
pub(crate) fn encode_elements<T>(
    ty: &Type,
    elements: &[T],
    out: &mut Vec<u8>,
    write: impl FnMut(&T, &mut Vec<u8>) -> Result<(), CellError>,
) -> Result<(), CellError> {
    let start = out.len();
    write_elements(ty, elements, out, write).inspect_err(|_| out.truncate(start))
}

/// Decodes the cell of a list or a vector directly to Rust values, which `read` decodes.
pub(crate) fn decode_elements<'a, T>(
    ty: &Type,
    cell: &'a [u8],
    mut read: impl FnMut(Option<&'a [u8]>) -> Result<T, CellError>,
) -> Result<Vec<T>, CellError> {
    let mut elements = match ty {
        Type::Vector(_, dimension) => Vec::with_capacity(usize::from(*dimension)),
        _ => Vec::new(),
    };
    walk(ty, cell, &mut |_, element| {
        elements.push(read(element)?);
        Ok(())
    })?;
    Ok(elements)
}

fn encode_fields<'t>(
    ty: &Type,
    fields: impl ExactSizeIterator<Item = &'t Type>,
    values: &[Option<Value>],
    out: &mut Vec<u8>,
    depth_left: usize,
) -> Result<(), CellError> {
    if fields.len() != values.len() {
        return Err(CellError::malformed(ty, format!("{} fields", values.len())));
    }
    for (field, value) in fields.zip(values) {
        match value {
            Some(value) => write_part(ty, out, |out| encode_at(field, value, out, depth_left))?,
            None => out.extend_from_slice(&NULL_LENGTH.to_be_bytes()),
        }
    }
    Ok(())
}

fn encode_set(
    ty: &Type,
    element: &Type,
    values: &[Value],
    out: &mut Vec<u8>,
    depth_left: usize,
) -> Result<(), CellError> {
    let mut cells = encode_each(element, values.iter(), depth_left)?;
    if element.is_orderable() {
        cells.sort_by(|left, right| order::compare(element, left, right));
        cells.dedup_by(|left, right| order::compare(element, left, right).is_eq());
    }
    write_length(ty, cells.len(), out)?;
    for cell in &cells {
        write_length(ty, cell.len(), out)?;
        out.extend_from_slice(cell);
    }
    Ok(())
}

fn encode_map(
    ty: &Type,
    (key, value): (&Type, &Type),
    entries: &[(Value, Value)],
    out: &mut Vec<u8>,
    depth_left: usize,
) -> Result<(), CellError> {
    let keys = encode_each(key, entries.iter().map(|(key, _)| key), depth_left)?;
    let mut sorted: Vec<(&Vec<u8>, &Value)> =
        keys.iter().zip(entries.iter().map(|(_, value)| value)).collect();
    if key.is_orderable() {
        sorted.sort_by(|left, right| order::compare(key, left.0, right.0));
        if sorted
            .windows(2)
            .any(|pair| order::compare(key, pair[0].0, pair[1].0).is_eq())
        {
            return Err(CellError::malformed(ty, "it has a key twice"));
        }
    }
    write_length(ty, sorted.len(), out)?;
    for (cell, entry) in sorted {
        write_length(ty, cell.len(), out)?;
        out.extend_from_slice(cell);
        write_part(ty, out, |out| encode_at(value, entry, out, depth_left))?;
    }
    Ok(())
}

fn encode_each<'v>(
    ty: &Type,
    values: impl Iterator<Item = &'v Value>,
    depth_left: usize,
) -> Result<Vec<Vec<u8>>, CellError> {
    values
        .map(|value| {
            let mut cell = Vec::new();
            encode_at(ty, value, &mut cell, depth_left)?;
            Ok(cell)
        })
        .collect()
}

/// Appends a length or a count as a big-endian integer of four bytes. Fails above 2 GiB.
fn write_length(ty: &Type, length: usize, out: &mut Vec<u8>) -> Result<(), CellError> {
    let length = i32::try_from(length).map_err(|_| CellError::malformed(ty, "longer than 2 GiB"))?;
    out.extend_from_slice(&length.to_be_bytes());
    Ok(())
}

/// Appends a part of a cell of `ty`: its length in four bytes, then the bytes that `write` appends.
fn write_part(
    ty: &Type,
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), CellError>,
) -> Result<(), CellError> {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out)?;
    let length =
        i32::try_from(out.len() - at - 4).map_err(|_| CellError::malformed(ty, "longer than 2 GiB"))?;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}
