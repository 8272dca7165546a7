//! Numbers as they are written in Korean and English.

/// A number with its Korean units ("1억 2,000만", "3만 5천"); none if it is too large to write out.
pub(super) fn number(chars: &[char], from: usize) -> Option<(String, usize)> {
    let (plain, mut at) = digits(chars, from);
    let Some(unit) = chars.get(at).copied().and_then(unit_value) else {
        return Some((plain, at));
    };
    let mut total: u128 = 0;
    let mut section = scaled(&plain, unit)?;
    at += 1;
    let mut least = unit;
    loop {
        // 5천만: a thousand of ten thousands.
        if let Some(next) = chars.get(at).copied().and_then(unit_value).filter(|next| *next > least) {
            section = section.checked_mul(next)?;
            least = next;
            at += 1;
            continue;
        }
        total = total.checked_add(section)?;
        let start = (at..chars.len()).find(|next| chars[*next] != ' ').unwrap_or(chars.len());
        let follows = chars.get(start).is_some_and(char::is_ascii_digit) && start - at <= 1;
        if !follows {
            return Some((total.to_string(), at));
        }
        let (plain, end) = digits(chars, start);
        let Some(unit) = chars.get(end).copied().and_then(unit_value).filter(|unit| *unit < least) else {
            // "3만 5": two numbers, unless no space stands between them as in "3만5000".
            if start == at {
                return Some((total.checked_add(scaled(&plain, 1)?)?.to_string(), end));
            }
            return Some((total.to_string(), at));
        };
        section = scaled(&plain, unit)?;
        least = unit;
        at = end + 1;
    }
}

fn digits(chars: &[char], from: usize) -> (String, usize) {
    let mut text = String::new();
    let mut at = from;
    while let Some(char) = chars.get(at) {
        let digit_next = chars.get(at + 1).is_some_and(char::is_ascii_digit);
        let group = *char == ','
            && digit_next
            && chars[at + 1..].iter().take_while(|c| c.is_ascii_digit()).count() == 3;
        match char {
            '0'..='9' => text.push(*char),
            '.' if digit_next && !text.contains('.') => text.push('.'),
            ',' if group => {}
            _ => break,
        }
        at += 1;
    }
    (text, at)
}

fn scaled(digits: &str, unit: u128) -> Option<u128> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let scale = 10u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let mantissa: u128 = format!("{whole}{fraction}").parse().ok()?;
    let product = mantissa.checked_mul(unit)?;
    product.is_multiple_of(scale).then(|| product / scale)
}

fn unit_value(unit: char) -> Option<u128> {
    match unit {
        '십' => Some(10),
        '백' => Some(100),
        '천' => Some(1000),
        '만' => Some(10_000),
        '억' => Some(100_000_000),
        '조' => Some(1_000_000_000_000),
        _ => None,
    }
}
