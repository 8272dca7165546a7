//! Sixty hard questions over a small corpus: particles, spacing, compounds, numbers in words, clauses, typos, everyday
//! words, English names with Korean endings, and contracts of one form that differ in a few words. The texts are split
//! and indexed on disk like any document. The passage that answers must be among the first three hits, and the first if
//! its article is named.

use super::*;
use crate::local::LocalIndex;
use crate::passage::DocumentKind;
use crate::retriever::DocumentIndex;

/// Name, title and text of each passage. A name such as `용역 12의2` is an article of that document.
const GOLDEN_PASSAGES: &[(&str, &str, &str)] = &[
    (
        "취업규칙 5",
        "취업규칙 제5조(근로시간)",
        "근로시간은 휴게시간을 제외하고 1일 8시간, 1주 40시간으로 한다. 시업은 오전 9시, 종업은 오후 6시로 한다.",
    ),
    (
        "취업규칙 6",
        "취업규칙 제6조(휴게)",
        "근로시간이 8시간인 경우에는 1시간의 휴게시간을 근로시간 도중에 준다.",
    ),
    (
        "취업규칙 8",
        "취업규칙 제8조(연차유급휴가)",
        "1년간 80퍼센트 이상 출근한 근로자에게 15일의 유급휴가를 준다. 휴가는 근로자가 청구한 시기에 준다.",
    ),
    (
        "취업규칙 8의2",
        "취업규칙 제8조의2(반일휴가)",
        "연차는 오전과 오후로 나누어 반일 단위로 사용할 수 있다.",
    ),
    (
        "취업규칙 10",
        "취업규칙 제10조(육아휴직)",
        "만 8세 이하의 자녀를 양육하기 위하여 휴직을 신청하면 1년 이내의 휴직을 허용한다.",
    ),
    (
        "취업규칙 10의2",
        "취업규칙 제10조의2(배우자 출산휴가)",
        "배우자가 출산한 근로자에게는 20일의 유급휴가를 준다.",
    ),
    (
        "취업규칙 15",
        "취업규칙 제15조(임금의 지급)",
        "임금은 매월 25일에 근로자가 지정한 계좌로 지급한다. 퇴직한 때에는 14일 이내에 모든 금품을 청산한다.",
    ),
    (
        "취업규칙 18",
        "취업규칙 제18조(가산임금)",
        "연장근로, 야간근로 및 휴일근로에 대하여는 통상임금의 100분의 50 이상을 가산하여 지급한다.",
    ),
    (
        "취업규칙 21",
        "취업규칙 제21조(해고의 예고)",
        "근로자를 해고하려면 적어도 30일 전에 예고하여야 하며, 해고는 서면으로 통지한다.",
    ),
    (
        "취업규칙 25",
        "취업규칙 제25조(직장 내 괴롭힘의 금지)",
        "지위 또는 관계의 우위를 이용하여 다른 근로자에게 고통을 주는 행위를 금지하며, 신고를 받으면 지체 없이 조사한다.",
    ),
    (
        "재택 1",
        "재택근무 지침",
        "재택근무는 주 2회까지 신청할 수 있으며, 전날 오후 5시까지 부서장의 승인을 받는다.",
    ),
    (
        "재택 2",
        "재택근무 지침 보안",
        "집에서 일할 때에는 회사가 준 노트북과 VPN만 사용하고, 공용 무선 네트워크에 접속하지 않는다.",
    ),
    (
        "경비 1",
        "경비 규정 출장",
        "국내 출장의 식비는 하루 4만 원까지 실비로 정산하고, 숙박비는 1박에 12만 원을 넘지 못한다.",
    ),
    (
        "경비 2",
        "경비 규정 법인카드",
        "법인카드는 업무에만 쓰며, 영수증은 결제일부터 7일 안에 올린다. 주류 결제는 승인하지 않는다.",
    ),
    ("경비 3", "경비 규정 교육비", "직무와 관련된 교육과 자격 시험의 비용은 연 100만 원까지 지원한다."),
    (
        "보안 1",
        "정보보안 지침 암호",
        "비밀번호는 12자 이상으로 하고 90일마다 바꾼다. 같은 비밀번호를 다시 쓰지 않는다.",
    ),
    (
        "보안 2",
        "정보보안 지침 분실",
        "노트북이나 휴대전화를 잃어버리면 1시간 안에 보안팀에 알리고 원격 삭제를 요청한다.",
    ),
    (
        "보안 3",
        "정보보안 지침 GitHub",
        "소스 코드는 사내 GitHub Enterprise에만 저장하며, 개인 저장소에 올리는 것을 금지한다.",
    ),
    ("보안 4", "정보보안 지침 출입", "방문객은 안내 데스크에서 출입증을 받고 담당자와 함께 다닌다."),
    (
        "개인 1",
        "개인정보 처리방침 파기",
        "회원이 탈퇴하면 개인정보를 5일 안에 파기한다. 법령에 따라 보존하는 정보는 따로 보관한다.",
    ),
    (
        "개인 2",
        "개인정보 처리방침 유출",
        "개인정보가 유출되면 72시간 안에 정보주체에게 알리고 개인정보보호위원회에 신고한다.",
    ),
    (
        "개인 3",
        "개인정보 처리방침 국외 이전",
        "국외에 있는 클라우드에 개인정보를 이전할 때에는 정보주체의 동의를 받는다.",
    ),
    (
        "개인 4",
        "개인정보 처리방침 영상정보처리기기",
        "사옥 출입구에 영상정보처리기기를 설치하며, 촬영된 영상은 30일간 보관한다.",
    ),
    (
        "용역 3",
        "소프트웨어 개발 용역계약서 제3조(계약기간)",
        "계약기간은 2026년 1월 1일부터 2026년 12월 31일까지로 한다. 기간 만료 30일 전까지 통지가 없으면 1년 연장된다.",
    ),
    (
        "용역 5",
        "소프트웨어 개발 용역계약서 제5조(대금의 지급)",
        "갑은 검수를 마친 날부터 30일 이내에 대금을 을에게 지급한다. 지연하면 연 6퍼센트의 이자를 가산한다.",
    ),
    (
        "용역 7",
        "소프트웨어 개발 용역계약서 제7조(검수)",
        "갑은 납품을 받은 날부터 10일 이내에 검수하고 그 결과를 을에게 통지한다.",
    ),
    (
        "용역 9",
        "소프트웨어 개발 용역계약서 제9조(비밀유지)",
        "당사자는 계약의 이행 중 알게 된 상대방의 영업비밀을 제3자에게 누설하지 아니하며, 이 의무는 계약 종료 후 3년간 존속한다.",
    ),
    (
        "용역 10",
        "소프트웨어 개발 용역계약서 제10조(지식재산권)",
        "결과물의 저작재산권은 대금이 완납된 때에 갑에게 양도된다.",
    ),
    (
        "용역 11",
        "소프트웨어 개발 용역계약서 제11조(하자담보책임)",
        "을은 검수 완료일부터 1년간 결과물의 하자를 무상으로 보수한다.",
    ),
    (
        "용역 12",
        "소프트웨어 개발 용역계약서 제12조(계약의 해지)",
        "당사자 일방이 계약을 위반하고 14일 이내에 시정하지 아니하면 상대방은 계약을 해지할 수 있다.",
    ),
    (
        "용역 12의2",
        "소프트웨어 개발 용역계약서 제12조의2(해지의 효과)",
        "해지된 때에는 이미 이행한 부분의 대금을 정산하고 받은 자료를 반환한다.",
    ),
    (
        "용역 13",
        "소프트웨어 개발 용역계약서 제13조(손해배상)",
        "고의 또는 과실로 상대방에게 손해를 입힌 당사자는 그 손해를 배상한다. 배상액은 계약금액을 한도로 한다.",
    ),
    (
        "용역 14",
        "소프트웨어 개발 용역계약서 제14조(불가항력)",
        "천재지변, 전쟁 등 불가항력으로 인한 불이행에 대하여는 책임을 지지 아니한다.",
    ),
    (
        "용역 15",
        "소프트웨어 개발 용역계약서 제15조(관할법원)",
        "이 계약에 관한 소송은 서울중앙지방법원을 관할법원으로 한다.",
    ),
    (
        "임대 2",
        "사무실 임대차계약서 제2조(보증금과 차임)",
        "보증금은 5천만 원, 차임은 월 300만 원으로 하며, 매월 말일에 선급한다.",
    ),
    (
        "임대 6",
        "사무실 임대차계약서 제6조(수선)",
        "임대인은 건물의 사용에 필요한 수선을 하여야 한다. 소모품의 교체는 임차인이 부담한다.",
    ),
    (
        "임대 8",
        "사무실 임대차계약서 제8조(해지)",
        "임차인이 차임을 2기 이상 연체하면 임대인은 계약을 해지할 수 있다.",
    ),
    (
        "임대 9",
        "사무실 임대차계약서 제9조(보증금의 반환)",
        "계약이 끝나면 임대인은 명도와 동시에 보증금을 반환한다.",
    ),
    (
        "서버 1",
        "Kubernetes 운영 안내 배포",
        "배포는 Argo CD가 자동으로 한다. 급할 때에는 kubectl rollout undo로 되돌린다.",
    ),
    ("서버 2", "Kubernetes 운영 안내 장애", "노드가 응답하지 않으면 파드는 5분 뒤에 다른 노드로 옮겨진다."),
    (
        "서버 3",
        "PostgreSQL 백업 안내",
        "PostgreSQL은 매일 새벽 3시에 전체 백업을 받고 WAL을 계속 보관한다. 복구 시험은 분기마다 한다.",
    ),
    (
        "book 1",
        "Handbook: expenses",
        "Keep every receipt for seven years. Claims are reimbursed within ten business days.",
    ),
    (
        "book 2",
        "Handbook: equipment",
        "Report a lost laptop to the security team within one hour so that it can be wiped remotely.",
    ),
    (
        "book 3",
        "Handbook: termination",
        "Either party may terminate this agreement by giving thirty days' written notice.",
    ),
    // Contracts and rules of the same form.
    (
        "디자인 3",
        "디자인 제작 용역계약서 제3조(계약기간)",
        "계약기간은 2026년 3월 1일부터 2026년 8월 31일까지로 한다. 기간 만료 15일 전까지 통지가 없으면 6개월 연장된다.",
    ),
    (
        "디자인 5",
        "디자인 제작 용역계약서 제5조(대금의 지급)",
        "① 갑은 검수를 마친 날부터 45일 이내에 대금을 을에게 지급한다.\n② 지연하면 연 9퍼센트의 이자를 가산한다.",
    ),
    (
        "디자인 7",
        "디자인 제작 용역계약서 제7조(검수)",
        "갑은 납품을 받은 날부터 5일 이내에 검수하고 그 결과를 을에게 통지한다.",
    ),
    (
        "디자인 12",
        "디자인 제작 용역계약서 제12조(계약의 해지)",
        "당사자 일방이 계약을 위반하고 30일 이내에 시정하지 아니하면 상대방은 계약을 해지할 수 있다.",
    ),
    (
        "디자인 13",
        "디자인 제작 용역계약서 제13조(손해배상)",
        "제12조에 따라 해지된 경우 책임 있는 당사자는 상대방의 손해를 배상한다. 배상액은 계약금액의 두 배를 한도로 한다.",
    ),
    (
        "디자인 15",
        "디자인 제작 용역계약서 제15조(관할법원)",
        "이 계약에 관한 소송은 부산지방법원을 관할법원으로 한다.",
    ),
    (
        "창고 2",
        "창고 임대차계약서 제2조(보증금과 차임)",
        "보증금은 2천만 원, 차임은 월 120만 원으로 하며, 매월 5일에 선급한다.",
    ),
    (
        "창고 6",
        "창고 임대차계약서 제6조(수선)",
        "임대인은 지붕과 외벽의 수선만 하며, 그 밖의 수선과 소모품의 교체는 임차인이 부담한다.",
    ),
    (
        "창고 8",
        "창고 임대차계약서 제8조(해지)",
        "다음의 경우 임대인은 계약을 해지할 수 있다.\n1. 임차인이 차임을 3기 이상 연체한 때\n2. 위험물을 보관한 때",
    ),
    (
        "창고 9",
        "창고 임대차계약서 제9조(보증금의 반환)",
        "제8조에 따라 해지된 때에도 임대인은 명도 후 14일 이내에 보증금을 반환한다.",
    ),
    (
        "옛규칙 5",
        "옛 취업규칙(2019년) 제5조(근로시간)",
        "근로시간은 휴게시간을 제외하고 1일 8시간, 1주 40시간으로 한다. 시업은 오전 8시, 종업은 오후 5시로 한다.",
    ),
    (
        "옛규칙 8",
        "옛 취업규칙(2019년) 제8조(연차유급휴가)",
        "1년간 80퍼센트 이상 출근한 근로자에게 12일의 유급휴가를 준다. 휴가는 회사가 정한 시기에 준다.",
    ),
    (
        "옛규칙 15",
        "옛 취업규칙(2019년) 제15조(임금의 지급)",
        "임금은 매월 10일에 근로자가 지정한 계좌로 지급한다. 퇴직한 때에는 30일 이내에 모든 금품을 청산한다.",
    ),
];

/// The questions, each with the name of the passage that answers it.
const GOLDEN_QUESTIONS: &[(&str, &str)] = &[
    // Particles and endings.
    ("휴가는 며칠인가요", "취업규칙 8"),
    ("검수에서는", "용역 7"),
    ("비밀번호를 얼마마다 바꿔야 하나요", "보안 1"),
    ("배상해야 하는 한도", "용역 13"),
    // Spacing.
    ("재택근무신청방법", "재택 1"),
    ("계약기간만료", "용역 3"),
    ("영상정보 처리 기기", "개인 4"),
    ("출장식비한도", "경비 1"),
    // Compounds.
    ("휴대전화분실신고", "보안 2"),
    ("하자보수기간", "용역 11"),
    ("배우자출산휴가일수", "취업규칙 10의2"),
    ("개인정보유출신고기한", "개인 2"),
    // Numbers of articles.
    ("취업규칙 제십조의2", "취업규칙 10의2"),
    ("취업규칙 제 10 조의 2", "취업규칙 10의2"),
    ("용역계약서 12조의2 내용", "용역 12의2"),
    ("소프트웨어 개발 용역계약서 第五條", "용역 5"),
    ("사무실 임대차계약서 8조", "임대 8"),
    ("취업규칙 제이십오조는?", "취업규칙 25"),
    // Clauses, branches and other spellings of numbers.
    ("디자인 제작 용역계약서 5조 2항", "디자인 5"),
    ("창고 임대차계약서 8조 1호", "창고 8"),
    ("사무실 임대차계약서 8조①", "임대 8"),
    ("소프트웨어 개발 용역계약서 12조의2 1항", "용역 12의2"),
    ("취업규칙 10-2조", "취업규칙 10의2"),
    ("취업규칙 10의2조 내용", "취업규칙 10의2"),
    ("취업규칙 제８조의２", "취업규칙 8의2"),
    ("창고 임대차계약서 제구조", "창고 9"),
    ("창고 임대차계약서 §6", "창고 6"),
    ("디자인 제작 용역계약서 Article 15", "디자인 15"),
    ("소프트웨어 개발 용역계약서 제십이조의2", "용역 12의2"),
    ("디자인 제작 용역계약서 art. 13(1)", "디자인 13"),
    // Contracts of one form: the one that is meant must be found.
    ("디자인 계약이 해지된 경우 배상액 한도", "디자인 13"),
    ("디자인 대금을 늦게 주면 이자가 몇 퍼센트", "디자인 5"),
    ("디자인 용역 소송은 어느 법원", "디자인 15"),
    ("창고 보증금은 언제 돌려주나", "창고 9"),
    ("창고 차임은 매월 며칠에", "창고 2"),
    ("창고 지붕 수선", "창고 6"),
    ("옛 취업규칙에서 임금은 며칠에 지급했나", "옛규칙 15"),
    ("2019년 취업규칙의 유급휴가 일수", "옛규칙 8"),
    ("소프트웨어 개발 용역계약 기간이 끝나기 며칠 전에 통지", "용역 3"),
    // Typos.
    ("손헤배상", "용역 13"),
    ("게약 해지", "용역 12"),
    ("비밀번오 변경", "보안 1"),
    ("육아휴찍", "취업규칙 10"),
    ("관활법원", "용역 15"),
    ("지식제산권", "용역 10"),
    ("recieve a reciept", "book 1"),
    ("termnate the agrement", "book 3"),
    // English names with Korean endings, and mixed scripts.
    ("GitHub에다가 코드를 올려도 되나요", "보안 3"),
    ("kubectl로 되돌리기", "서버 1"),
    ("VPN으로만 접속해야 하나요", "재택 2"),
    ("PostgreSQL에서는 백업을 언제 받나", "서버 3"),
    // Everyday words.
    ("월급날이 언제야", "취업규칙 15"),
    ("잘리기 전에 미리 알려줘야 해?", "취업규칙 21"),
    ("야근하면 돈을 더 주나", "취업규칙 18"),
    ("점심시간은 얼마나", "취업규칙 6"),
    ("팀장이 갑질해요", "취업규칙 25"),
    ("탈퇴한 회원 정보는 언제 지워", "개인 1"),
    ("CCTV 영상은 얼마나 보관해", "개인 4"),
    ("월세를 두 달 밀리면", "임대 8"),
    ("외국 서버에 고객 정보를 올려도 되나", "개인 3"),
];

/// The documents as a user would upload them: articles one after another, other texts under headings.
fn golden_documents() -> Vec<Document> {
    let mut documents: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for (name, title, text) in GOLDEN_PASSAGES {
        let (document, _) = name.split_once(' ').expect("a name of two words");
        documents.entry(document).or_default().push((title, text));
    }
    let written = |(id, lines): (&str, Vec<(&str, &str)>)| {
        let articles = lines[0].0.split_once(" 제").is_some();
        let title = if articles { lines[0].0.split(" 제").next().unwrap_or_default() } else { id };
        let line = |(heading, text): &(&str, &str)| match heading.rsplit_once(" 제") {
            Some((_, heading)) if articles => format!("제{heading} {text}\n\n"),
            _ => format!("## {heading}\n\n{text}\n\n"),
        };
        let text: String = lines.iter().map(line).collect();
        let kind = if title.contains("계약서") { DocumentKind::Contract } else { DocumentKind::General };
        Document { kind, ..Document::new(id, title, text) }
    };
    documents.into_iter().map(written).collect()
}

#[tokio::test]
async fn sixty_hard_questions_find_their_passage() {
    let tenant = DocumentTenant::new("t");
    let place = tempfile::tempdir().expect("a directory");
    let index = LocalIndex::open(place.path(), None).await.expect("an index");
    for document in golden_documents() {
        index.put(&tenant, &document, &split_into_passages(&document)).await.expect("put");
    }
    assert_eq!(GOLDEN_QUESTIONS.len(), 60);
    let mut missed = Vec::new();
    for (question, wanted) in GOLDEN_QUESTIONS {
        let found = GOLDEN_PASSAGES.iter().find(|(name, ..)| name == wanted);
        let (_, _, text) = found.unwrap_or_else(|| panic!("no passage is called {wanted}"));
        let (id, _) = wanted.split_once(' ').expect("a name of two words");
        let limit = if find_article_numbers(question).is_empty() { 3 } else { 1 };
        let hits = index.retrieve(&SearchQuery::new(tenant.clone(), *question, limit)).await.expect("hits");
        let is_it = |hit: &Hit| hit.passage.document.as_str() == id && hit.passage.text.contains(text);
        if !hits.iter().any(is_it) {
            let titles: Vec<&str> = hits.iter().map(|hit| hit.passage.title.as_str()).collect();
            missed.push(format!("{question}: {titles:?}, not {wanted}"));
        }
    }
    assert!(missed.is_empty(), "{} missed:\n{}", missed.len(), missed.join("\n"));
}
