//! Dates and times, as tables.

use super::*;

/// 2026-11-15 09:22:39 UTC, a Sunday.
const NOW_MS: i64 = 1_794_734_559_000;

fn answer_text(arguments: Value, language: Language) -> String {
    let arguments: DatetimeArguments = serde_json::from_value(arguments).expect("arguments");
    match datetime_output(&arguments, "Asia/Seoul", NOW_MS, language) {
        Ok(output) => output.text,
        Err(error) => format!("! {error}"),
    }
}

fn first_line(arguments: Value) -> String {
    answer_text(arguments, Language::Korean).lines().next().unwrap_or_default().to_owned()
}

#[test]
fn it_tells_the_time_of_the_call_in_a_zone_by_any_name() {
    let cases = [
        (json!({}), "2026-11-15 (일요일) 18:22:39, Asia/Seoul (UTC+09:00)"),
        (json!({ "timezone": "UTC" }), "2026-11-15 (일요일) 09:22:39, UTC (UTC+00:00)"),
        (json!({ "timezone": "뉴욕" }), "2026-11-15 (일요일) 04:22:39, America/New_York (UTC-05:00)"),
        (json!({ "timezone": "New York" }), "2026-11-15 (일요일) 04:22:39, America/New_York (UTC-05:00)"),
        (json!({ "timezone": "europe/london" }), "2026-11-15 (일요일) 09:22:39, Europe/London (UTC+00:00)"),
        (json!({ "timezone": "인도" }), "2026-11-15 (일요일) 14:52:39, Asia/Kolkata (UTC+05:30)"),
    ];
    for (arguments, expected) in cases {
        assert_eq!(first_line(arguments.clone()), expected, "{arguments}");
    }
    assert_eq!(
        answer_text(json!({}), Language::English),
        "2026-11-15 (Sunday) 18:22:39, Asia/Seoul (UTC+09:00)\nnot a Korean public holiday; the next one is 2026-12-25 Christmas"
    );
}

#[test]
fn it_counts_with_dates() {
    let cases = [
        (
            json!({ "date": "2026-01-01", "add_days": 90 }),
            "2026-04-01 (수요일) 00:00:00, Asia/Seoul (UTC+09:00)",
        ),
        (
            json!({ "date": "2024-01-31", "add_months": 1 }),
            "2024-02-29 (목요일) 00:00:00, Asia/Seoul (UTC+09:00)",
        ),
        (
            json!({ "date": "2026년 3월 1일", "add_weeks": -1 }),
            "2026-02-22 (일요일) 00:00:00, Asia/Seoul (UTC+09:00)",
        ),
        (json!({ "add_hours": 6 }), "2026-11-16 (월요일) 00:22:39, Asia/Seoul (UTC+09:00)"),
        // Friday before 추석 2026 is itself the holiday: 24 to 26 September are off, and so is the weekend.
        (
            json!({ "date": "2026-09-23", "add_business_days": 1 }),
            "2026-09-28 (월요일) 00:00:00, Asia/Seoul (UTC+09:00)",
        ),
        (
            json!({ "date": "2026-09-28", "add_business_days": -1 }),
            "2026-09-23 (수요일) 00:00:00, Asia/Seoul (UTC+09:00)",
        ),
    ];
    for (arguments, expected) in cases {
        assert_eq!(first_line(arguments.clone()), expected, "{arguments}");
    }
    let until = answer_text(json!({ "until": "2026-12-25" }), Language::Korean);
    assert!(until.ends_with("2026-11-15부터 2026-12-25까지 40일 (5주 5일, 0년 1개월 10일)"), "{until}");
    let since = answer_text(json!({ "until": "2025-11-15" }), Language::English);
    assert!(
        since.ends_with(
            "2025-11-15 was 365 days before 2026-11-15 (52 weeks 1 days; 1 years 0 months 0 days)"
        ),
        "{since}"
    );
}

#[test]
fn it_knows_holidays_and_their_substitutes() {
    let second = |date: &str| {
        answer_text(json!({ "date": date }), Language::Korean).lines().nth(1).unwrap_or_default().to_owned()
    };
    assert_eq!(second("2026-09-25"), "한국 공휴일: 추석; 다음 공휴일 2026-09-26 추석 다음날");
    assert_eq!(second("2026-03-02"), "한국 공휴일: 삼일절 대체공휴일; 다음 공휴일 2026-05-01 노동절");
    assert_eq!(second("2026-12-31"), "한국 공휴일 아님; 다음 공휴일 2027-01-01 새해 첫날");
    assert_eq!(second("2036-01-01"), "");
    let year = answer_text(json!({ "holidays_of": 2028 }), Language::Korean);
    assert!(year.contains("2028-10-05 (목요일) 추석 대체공휴일"), "{year}");
    assert!(year.ends_with("(선거일과 임시공휴일은 빠져 있을 수 있음)"), "{year}");
}

#[test]
fn a_weekday_is_of_a_week_or_of_a_month() {
    for (arguments, expected) in [
        (json!({ "weekday": "friday", "week": 1 }), "2026-11-20"),
        (json!({ "weekday": "friday", "week": 0 }), "2026-11-13"),
        (json!({ "weekday": "monday" }), "2026-11-16"),
        (json!({ "weekday": "sunday" }), "2026-11-15"),
        (json!({ "weekday": "monday", "nth_in_month": -1 }), "2026-11-30"),
        (json!({ "weekday": "tuesday", "nth_in_month": 1, "add_months": 1 }), "2026-12-01"),
        (json!({ "weekday": "monday", "nth_in_month": 5, "add_months": 1 }), "! "),
        (json!({ "weekday": "monday", "nth_in_month": 9 }), "! "),
        (json!({ "weekday": "monday", "week": i64::MAX }), "! "),
    ] {
        let found = first_line(arguments.clone());
        assert!(found.starts_with(expected), "{arguments}: {found}");
    }
}

#[test]
fn a_date_without_a_year_is_of_this_year_or_still_to_come() {
    assert!(first_line(json!({ "date": "12-25" })).starts_with("2026-12-25 (금요일)"));
    assert!(first_line(json!({ "date": "03-01" })).starts_with("2026-03-01 (일요일)"));
    let until = answer_text(json!({ "until": "03-01" }), Language::Korean);
    assert!(until.contains("2026-11-15부터 2027-03-01까지 106일"), "{until}");
    assert!(answer_text(json!({ "date": "13-45" }), Language::Korean).starts_with('!'));
}

#[test]
fn a_holiday_is_found_by_its_name() {
    let on = |arguments: Value, language| answer_text(arguments, language).replace('\n', "; ");
    assert_eq!(
        on(json!({ "holiday": "추석" }), Language::Korean),
        "2027-09-14 (화요일) 추석 전날, 303일 뒤; 2027-09-15 (수요일) 추석, 304일 뒤; 2027-09-16 (목요일) 추석 다음날, 305일 뒤"
    );
    assert_eq!(
        on(json!({ "holiday": "Chuseok", "holidays_of": 2025 }), Language::English),
        "2025-10-05 (Sunday) the day before Chuseok; 2025-10-06 (Monday) Chuseok; 2025-10-07 (Tuesday) the day after Chuseok; \
         2025-10-08 (Wednesday) substitute for Chuseok"
    );
    assert_eq!(
        on(json!({ "holiday": "크리스마스" }), Language::Korean),
        "2026-12-25 (금요일) 기독탄신일, 40일 뒤"
    );
    assert_eq!(
        on(json!({ "holiday": "한글날", "add_years": 0 }), Language::Korean),
        "2026-10-09 (금요일) 한글날"
    );
    for arguments in [
        json!({ "holiday": "할로윈" }),
        json!({ "holiday": "추석", "holidays_of": 2050 }),
        json!({ "holiday": "추석", "date": "2035-12-01" }),
        json!({ "holiday": "제헌절", "holidays_of": 2024 }),
    ] {
        assert!(answer_text(arguments.clone(), Language::Korean).starts_with('!'), "{arguments}");
    }
}

#[test]
fn hostile_dates_get_a_sentence() {
    let zone = answer_text(json!({ "timezone": "Mars/Phobos" }), Language::English);
    assert!(zone.starts_with("! unknown time zone `Mars/Phobos`; similar names: "), "{zone}");
    let near = answer_text(json!({ "timezone": "Asia/Soul" }), Language::English);
    assert!(near.contains("Asia/Seoul"), "{near}");
    for odd in ["../../etc/passwd", "", "서울\u{0}", "+09:00"] {
        assert!(answer_text(json!({ "timezone": odd }), Language::English).starts_with('!'), "{odd}");
    }
    for arguments in [
        json!({ "date": "999999999999-01-01" }),
        json!({ "add_years": 999_999_999_999_i64 }),
        json!({ "add_hours": -999_999_999_i64 }),
        json!({ "add_days": i64::MIN }),
        json!({ "add_minutes": i64::MAX }),
        json!({ "add_business_days": i64::MIN }),
        json!({ "add_business_days": 3000, "date": "2034-01-01" }),
        json!({ "date": "2026-02-30" }),
        json!({ "date": "2026-13-01" }),
        json!({ "date": "어제" }),
        json!({ "until": "never" }),
        json!({ "holidays_of": 1999 }),
    ] {
        assert!(answer_text(arguments.clone(), Language::Korean).starts_with('!'), "{arguments}");
    }
    let leap = answer_text(json!({ "date": "2026-06-30T23:59:60" }), Language::English);
    assert!(leap.contains("23:59:59") && leap.contains("leap second"), "{leap}");
}

#[test]
fn times_that_a_clock_change_skips_or_repeats_are_marked() {
    let gap =
        answer_text(json!({ "date": "2026-03-29T02:30", "timezone": "Europe/Berlin" }), Language::English);
    assert!(gap.starts_with("2026-03-29 (Sunday) 03:30:00, Europe/Berlin (UTC+02:00)"), "{gap}");
    assert!(
        gap.ends_with("does not exist there (the clocks go forward), so it was moved on by the gap"),
        "{gap}"
    );
    let fold =
        answer_text(json!({ "date": "2026-10-25T02:30", "timezone": "Europe/Berlin" }), Language::English);
    assert!(fold.starts_with("2026-10-25 (Sunday) 02:30:00, Europe/Berlin (UTC+02:00)"), "{fold}");
    assert!(fold.ends_with("comes twice there (the clocks go back); the first was taken"), "{fold}");
}
