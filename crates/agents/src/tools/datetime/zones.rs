//! Time zones by the names people use: IANA names, and cities and countries in Korean and English.

use jiff::tz::TimeZone;

/// A zone by name, or the known names that look most like it.
pub(super) fn find_time_zone(name: &str) -> Result<(TimeZone, String), Vec<String>> {
    let trimmed = name.trim();
    let folded = trimmed.to_lowercase().replace(['_', '-'], " ");
    let city = CITY_TIME_ZONES.iter().find(|(_, names)| names.contains(&folded.as_str()));
    let wanted = city.map_or(trimmed, |(zone, _)| *zone);
    let plain =
        wanted.len() <= 64 && wanted.chars().all(|one| one.is_ascii_alphanumeric() || "/_+-".contains(one));
    if plain
        && let Ok(zone) = TimeZone::get(wanted)
        && let Some(known) = zone.iana_name().map(str::to_owned)
    {
        return Ok((zone, known));
    }
    Err(similar_names(&folded))
}

fn similar_names(name: &str) -> Vec<String> {
    let name: String = name.chars().take(40).collect();
    let mut all: Vec<(usize, String)> = jiff::tz::db()
        .available()
        .map(|known| {
            let known = known.as_str().to_owned();
            let folded = known.to_lowercase().replace('_', " ");
            let city = folded.rsplit('/').next().unwrap_or_default();
            let distance = strsim::levenshtein(&name, &folded).min(strsim::levenshtein(&name, city) + 1);
            (distance, known)
        })
        .collect();
    all.sort();
    all.into_iter().take(3).map(|(_, known)| known).collect()
}

const CITY_TIME_ZONES: &[(&str, &[&str])] = &[
    (
        "Asia/Seoul",
        &[
            "서울",
            "한국",
            "대한민국",
            "부산",
            "인천",
            "대구",
            "대전",
            "광주",
            "제주",
            "seoul",
            "korea",
            "south korea",
            "busan",
            "kst",
        ],
    ),
    ("Asia/Pyongyang", &["평양", "pyongyang"]),
    ("Asia/Tokyo", &["도쿄", "동경", "일본", "오사카", "tokyo", "japan", "osaka", "jst"]),
    (
        "Asia/Shanghai",
        &["베이징", "북경", "상하이", "상해", "중국", "선전", "beijing", "shanghai", "china", "shenzhen"],
    ),
    ("Asia/Hong_Kong", &["홍콩", "hong kong"]),
    ("Asia/Taipei", &["타이베이", "타이페이", "대만", "taipei", "taiwan"]),
    ("Asia/Singapore", &["싱가포르", "singapore"]),
    ("Asia/Bangkok", &["방콕", "태국", "bangkok", "thailand"]),
    ("Asia/Ho_Chi_Minh", &["호치민", "하노이", "베트남", "ho chi minh", "hanoi", "vietnam"]),
    ("Asia/Jakarta", &["자카르타", "jakarta"]),
    ("Asia/Manila", &["마닐라", "필리핀", "manila", "philippines"]),
    ("Asia/Kuala_Lumpur", &["쿠알라룸푸르", "말레이시아", "kuala lumpur", "malaysia"]),
    (
        "Asia/Kolkata",
        &["인도", "뉴델리", "뭄바이", "델리", "india", "new delhi", "delhi", "mumbai", "bangalore"],
    ),
    ("Asia/Dubai", &["두바이", "아부다비", "dubai", "abu dhabi", "uae"]),
    ("Asia/Riyadh", &["리야드", "사우디아라비아", "riyadh", "saudi arabia"]),
    ("Asia/Jerusalem", &["예루살렘", "텔아비브", "이스라엘", "jerusalem", "tel aviv", "israel"]),
    ("Asia/Almaty", &["알마티", "카자흐스탄", "almaty", "kazakhstan"]),
    ("Asia/Tashkent", &["타슈켄트", "우즈베키스탄", "tashkent", "uzbekistan"]),
    ("Asia/Ulaanbaatar", &["울란바토르", "몽골", "ulaanbaatar", "mongolia"]),
    ("Europe/Istanbul", &["이스탄불", "튀르키예", "터키", "istanbul", "turkey"]),
    ("Europe/Moscow", &["모스크바", "moscow"]),
    ("Europe/London", &["런던", "영국", "london", "uk", "united kingdom", "england"]),
    ("Europe/Paris", &["파리", "프랑스", "paris", "france"]),
    (
        "Europe/Berlin",
        &["베를린", "독일", "뮌헨", "프랑크푸르트", "berlin", "germany", "munich", "frankfurt"],
    ),
    ("Europe/Madrid", &["마드리드", "스페인", "바르셀로나", "madrid", "spain", "barcelona"]),
    ("Europe/Rome", &["로마", "이탈리아", "밀라노", "rome", "italy", "milan"]),
    ("Europe/Amsterdam", &["암스테르담", "네덜란드", "amsterdam", "netherlands"]),
    ("Europe/Zurich", &["취리히", "스위스", "제네바", "zurich", "switzerland", "geneva"]),
    ("Europe/Vienna", &["빈", "비엔나", "오스트리아", "vienna", "austria"]),
    ("Europe/Stockholm", &["스톡홀름", "스웨덴", "stockholm", "sweden"]),
    ("Europe/Warsaw", &["바르샤바", "폴란드", "warsaw", "poland"]),
    ("Europe/Prague", &["프라하", "체코", "prague", "czechia"]),
    ("Europe/Lisbon", &["리스본", "포르투갈", "lisbon", "portugal"]),
    (
        "America/New_York",
        &["뉴욕", "워싱턴", "보스턴", "애틀랜타", "new york", "nyc", "washington", "boston", "atlanta"],
    ),
    ("America/Chicago", &["시카고", "댈러스", "휴스턴", "chicago", "dallas", "houston"]),
    ("America/Denver", &["덴버", "denver"]),
    (
        "America/Los_Angeles",
        &[
            "로스앤젤레스",
            "엘에이",
            "샌프란시스코",
            "시애틀",
            "실리콘밸리",
            "los angeles",
            "la",
            "san francisco",
            "seattle",
            "silicon valley",
        ],
    ),
    ("America/Toronto", &["토론토", "toronto"]),
    ("America/Vancouver", &["밴쿠버", "vancouver"]),
    ("America/Mexico_City", &["멕시코시티", "mexico city"]),
    ("America/Sao_Paulo", &["상파울루", "리우데자네이루", "sao paulo", "são paulo", "rio de janeiro"]),
    ("America/Argentina/Buenos_Aires", &["부에노스아이레스", "아르헨티나", "buenos aires", "argentina"]),
    ("Pacific/Honolulu", &["호놀룰루", "하와이", "honolulu", "hawaii"]),
    ("Australia/Sydney", &["시드니", "sydney", "canberra", "캔버라"]),
    ("Australia/Melbourne", &["멜버른", "melbourne"]),
    ("Australia/Perth", &["퍼스", "perth"]),
    ("Pacific/Auckland", &["오클랜드", "뉴질랜드", "auckland", "new zealand"]),
    ("Africa/Cairo", &["카이로", "이집트", "cairo", "egypt"]),
    ("Africa/Johannesburg", &["요하네스버그", "남아공", "johannesburg", "south africa"]),
    ("Africa/Nairobi", &["나이로비", "케냐", "nairobi", "kenya"]),
    ("Africa/Lagos", &["라고스", "나이지리아", "lagos", "nigeria"]),
    ("UTC", &["utc", "gmt", "세계시", "협정 세계시"]),
];
