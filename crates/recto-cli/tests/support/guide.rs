//! Reader of code blocks in the guide: commands, and the outputs that the guide shows.

/// Fenced code block of a page in Markdown.
pub(crate) struct Block<'a> {
    /// Text of the page before the block, from the end of the previous block.
    pub(crate) before: &'a str,
    pub(crate) language: &'a str,
    pub(crate) text: &'a str,
}

/// Returns the fenced code blocks of a page, in order.
pub(crate) fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut pieces = page.split("```");
    let mut blocks = Vec::new();
    while let (Some(before), Some(block)) = (pieces.next(), pieces.next()) {
        let (language, text) = block.split_once('\n').unwrap();
        blocks.push(Block {
            before,
            language,
            text,
        });
    }
    blocks
}

/// Returns whether an output equals the output in the guide. In the guide, `…` stands for any text within a
/// line.
pub(crate) fn is_shown(shown: &str, found: &str) -> bool {
    let line = |(shown, found): (&str, &str)| {
        let Some((before, after)) = shown.split_once('…') else {
            return shown == found;
        };
        let (inner, last) = after.rsplit_once('…').unwrap_or(("", after));
        let rest = found
            .strip_prefix(before)
            .and_then(|rest| rest.strip_suffix(last));
        let Some(mut rest) = rest else { return false };
        for piece in inner.split('…') {
            let Some(at) = rest.find(piece) else { return false };
            rest = &rest[at + piece.len()..];
        }
        true
    };
    shown.lines().count() == found.lines().count() && shown.lines().zip(found.lines()).all(line)
}
