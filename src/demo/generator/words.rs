//! The vocabulary of the generated site: pages, browsers, pages that link to it.
//!
//! Everything is composed here from a few words, so that the populations can
//! grow to any size and no list of real traffic is needed. Texts hold no
//! quote, backslash, space (but in user agents), `?` or LF.

use super::Texts;

pub(super) const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

pub(super) const USERS: [&str; 8] = [
    "ada", "bruno", "chen", "dilara", "edda", "frank", "grete", "hannes",
];

const ADJECTIVES: [&str; 40] = [
    "quiet", "early", "copper", "northern", "small", "bright", "wooden", "patient", "salty",
    "hidden", "winter", "river", "steady", "paper", "golden", "distant", "gentle", "stone",
    "curious", "silver", "evening", "plain", "windy", "careful", "summer", "narrow", "round",
    "coastal", "honest", "velvet", "tidy", "amber", "slow", "sturdy", "hollow", "mossy", "sunlit",
    "humble", "brisk", "woven",
];

pub(super) const NOUNS: [&str; 40] = [
    "harbour", "garden", "lantern", "kitchen", "orchard", "bridge", "market", "workshop", "meadow",
    "library", "compass", "kettle", "attic", "valley", "bakery", "signal", "ferry", "notebook",
    "cellar", "station", "pantry", "quarry", "balcony", "loom", "canal", "chapel", "beacon",
    "stable", "terrace", "anchor", "ladder", "mill", "grove", "hearth", "wharf", "tower", "barrel",
    "museum", "archive", "fountain",
];

/// The pages that every site has; the most popular ranks.
const FIXED_PATHS: [&str; 20] = [
    "/",
    "/assets/site.css",
    "/assets/site.js",
    "/images/logo.svg",
    "/articles/",
    "/favicon.ico",
    "/search",
    "/feed.xml",
    "/robots.txt",
    "/about",
    "/shop/",
    "/api/v1/status",
    "/login",
    "/guides/",
    "/api/v1/cart",
    "/contact",
    "/images/cover.webp",
    "/sitemap.xml",
    "/shop/basket",
    "/press",
];

/// Folder and ending of composed pages.
const SECTIONS: [(&str, &str); 6] = [
    ("/articles/", ""),
    ("/shop/", ""),
    ("/images/", ".webp"),
    ("/guides/", ".html"),
    ("/api/v1/items/", ""),
    ("/downloads/", ".pdf"),
];

/// Distinct paths, the most popular first.
pub(super) fn paths(count: u32) -> Texts {
    let mut texts = Texts::default();
    let count = count as usize;
    for path in FIXED_PATHS.iter().take(count) {
        texts.push(path.as_bytes());
    }
    for number in 0..count.saturating_sub(FIXED_PATHS.len()) {
        texts.push(composed_path(number).as_bytes());
    }
    texts
}

/// The path of a number: section, adjective and noun, and an edition when the
/// words are used up. Different numbers give different paths.
fn composed_path(number: usize) -> String {
    let (folder, ending) = SECTIONS[number % SECTIONS.len()];
    let pair = number / SECTIONS.len();
    let adjective = pair % ADJECTIVES.len();
    // A shift by the adjective keeps neighbours apart and the pairs distinct.
    let noun = (pair / ADJECTIVES.len() + adjective * 7) % NOUNS.len();
    let (adjective, noun) = (ADJECTIVES[adjective], NOUNS[noun]);
    match pair / (ADJECTIVES.len() * NOUNS.len()) {
        0 => format!("{folder}{adjective}-{noun}{ending}"),
        edition => format!("{folder}{adjective}-{noun}-{}{ending}", edition + 1),
    }
}

/// About two hundred user agents: browsers in many versions, robots, programs.
pub(super) fn user_agents() -> Texts {
    let mut texts = Texts::default();
    let desktops = [
        "Windows NT 10.0; Win64; x64",
        "X11; Linux x86_64",
        "Macintosh; Intel Mac OS X 10_15_7",
        "X11; CrOS x86_64 14541.0.0",
    ];
    let phones = ["Linux; Android 14; K", "Linux; Android 15; K"];
    let robots = [
        ("bingbot", "https://www.bing.com/bingbot.htm"),
        ("Googlebot", "https://www.google.com/bot.html"),
        ("quarrybot", "https://quarry.example/robot"),
        ("LanternCrawler", "https://lantern.example/crawler"),
        ("feedmill", "https://feedmill.example/about"),
    ];
    let programs = ["curl/8.", "python-requests/2.", "Wget/1.", "okhttp/4."];
    // Versions turn slowest, so that the popular ranks hold one of each kind.
    for version in 0..14 {
        let major = 141 - version;
        for system in desktops.iter().chain(&phones) {
            let mobile = if system.contains("Android") {
                " Mobile"
            } else {
                ""
            };
            texts.push(
                format!(
                    "Mozilla/5.0 ({system}) AppleWebKit/537.36 (KHTML, like Gecko) \
                     Chrome/{major}.0.0.0{mobile} Safari/537.36"
                )
                .as_bytes(),
            );
        }
        for system in &desktops[..3] {
            texts.push(
                format!("Mozilla/5.0 ({system}; rv:{major}.0) Gecko/20100101 Firefox/{major}.0")
                    .as_bytes(),
            );
        }
        let minor = version % 7;
        let safari = 26 - version / 3;
        texts.push(
            format!(
                "Mozilla/5.0 (iPhone; CPU iPhone OS {safari}_{minor} like Mac OS X) \
                 AppleWebKit/605.1.15 (KHTML, like Gecko) Version/{safari}.{minor} \
                 Mobile/15E148 Safari/604.1"
            )
            .as_bytes(),
        );
        texts.push(
            format!(
                "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 \
                 (KHTML, like Gecko) Version/{safari}.{minor} Safari/605.1.15"
            )
            .as_bytes(),
        );
        let (robot, page) = robots[version % robots.len()];
        let release = version / robots.len() + 1;
        texts.push(
            format!("Mozilla/5.0 (compatible; {robot}/{release}.{minor}; +{page})").as_bytes(),
        );
        let program = programs[version % programs.len()];
        texts.push(format!("{program}{}", 20 + version).as_bytes());
    }
    // The field is logged as `-` when a client does not name itself.
    texts.push(b"-");
    texts
}

/// A thousand referrers, the most popular first: none, our own pages, others'.
pub(super) fn referrers() -> Texts {
    let mut texts = Texts::default();
    texts.push(b"-");
    let engines = ["search.example", "find.example", "seek.example"];
    for number in 0..999 {
        let noun = NOUNS[number % NOUNS.len()];
        let text = match number % 4 {
            0 => {
                let path = composed_path(number);
                format!("https://www.mill.example{path}")
            }
            1 => {
                let path = FIXED_PATHS[number / 4 % FIXED_PATHS.len()];
                format!("https://www.mill.example{path}?from={number}")
            }
            2 => {
                let engine = engines[number / 4 % engines.len()];
                format!("https://{engine}/results?q={noun}&n={number}")
            }
            _ => {
                let adjective = ADJECTIVES[number / 4 % ADJECTIVES.len()];
                format!("https://{adjective}-{noun}.example/links/{number}.html")
            }
        };
        texts.push(text.as_bytes());
    }
    texts
}
