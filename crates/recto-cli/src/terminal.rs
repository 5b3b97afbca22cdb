//! Size and keys of the terminal.

use std::io;

use crate::console::{Key, Keyboard};

/// Returns the numbers of columns and lines of the terminal; `None` without a terminal.
pub(crate) fn size() -> Option<(u16, u16)> {
    crossterm::terminal::size().ok()
}

pub(crate) fn keyboard() -> Box<dyn Keyboard> {
    Box::new(TerminalKeyboard)
}

/// Keyboard of the terminal. It returns each key without waiting for Enter.
struct TerminalKeyboard;

/// Guard of the terminal's raw mode, in which keys arrive one by one. Dropping the guard restores
/// normal mode.
struct RawMode;

impl RawMode {
    fn enter() -> io::Result<Self> {
        crossterm::terminal::enable_raw_mode()?;
        Ok(Self)
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // Ignore an error: it means that the terminal no longer exists.
        let _ = crossterm::terminal::disable_raw_mode();
    }
}

impl Keyboard for TerminalKeyboard {
    fn next_key(&mut self) -> io::Result<Key> {
        use crossterm::event::{Event, KeyEventKind, read};
        let _raw = RawMode::enter()?;
        loop {
            match read()? {
                Event::Key(event) if event.kind != KeyEventKind::Release => return Ok(key_of(event)),
                _ => {}
            }
        }
    }
}

fn key_of(event: crossterm::event::KeyEvent) -> Key {
    use crossterm::event::{KeyCode, KeyModifiers};
    if event.modifiers.contains(KeyModifiers::CONTROL) {
        return match event.code {
            KeyCode::Char('c') => Key::Interrupt,
            KeyCode::Char('d') => Key::Quit,
            _ => Key::Other,
        };
    }
    match event.code {
        KeyCode::Char(' ') | KeyCode::PageDown | KeyCode::Right => Key::Next,
        KeyCode::Backspace | KeyCode::PageUp | KeyCode::Left => Key::Previous,
        KeyCode::Home => Key::First,
        KeyCode::End => Key::Last,
        KeyCode::Esc => Key::Quit,
        KeyCode::Char(character) => Key::Character(character.to_ascii_lowercase()),
        _ => Key::Other,
    }
}
