// The texts of the page in two languages. Elements name their text in `data-i18n` (content) or `data-i18n-label`
// (aria-label and title). A value may be a function of its arguments.

const zh = {
  title: "字树 Zishu：中文分词、依存句法与词内结构",
  tagline: "以字为单位的中文句法分析：分词、依存树、词内结构",
  language: "English",
  languageLabel: "Switch to English",
  theme: { auto: "跟随系统", light: "浅色", dark: "深色" },
  themeLabel: "切换浅色或深色",
  textLabel: "待分析的文本",
  placeholder: "在此输入或粘贴中文文本……",
  parse: "分析",
  parseHint: "Ctrl + Enter",
  characters: (n) => `${n} 字`,
  empty: "输入一句话，或者试试：",
  summary: (sentences, words) => `${sentences} 句 · ${words} 词`,
  how:
    "点击词可修改词性、中心词和关系；把词拖到另一个词上，即以后者为中心词；点击两个字之间可以断开或合并。" +
    "每次修改后会重新分析句子的其余部分，变化之处以紫色标出。",
  keys: "键盘：Tab 进入图，← → 移动，Enter 修改，Esc 返回，Ctrl + Z 撤销。",
  style: "标注规范",
  styleLabel: "分词和标注遵循的树库规范",
  styles: { gsd: "百科 GSD", pud: "新闻 PUD", hk: "口语 HK" },
  granularity: { fine: "词缀分开", coarse: "词缀合并" },
  granularityLabel: "词缀是否独立成词",
  inner: { structure: "构词结构", latent: "隐含结构" },
  innerLabel: "词内的树：构词法，或分析器自己学到的",
  innerNames: "词内关系",
  lines: { broken: "换行即断句", wrapped: "换行不断句" },
  linesLabel: "换行是否断句",
  openFile: "打开文件…",
  fileTooLarge: "文件太大。",
  fileNotText: "该文件不是文本文件。",
  fileEmpty: "文件是空的。",
  lexicon: "词典",
  lexiconHow: "应保持完整的词，词与词之间用空格、逗号或换行分隔。",
  lexiconSoft: "只作提示：模型有把握时仍可切开",
  withoutLexicon: (prob) => `不用词典时 ${prob}`,
  lexiconPlaceholder: "例如：金融业 球拍",
  zoom: "缩放",
  smaller: "缩小",
  larger: "放大",
  fit: "适合宽度",
  rows: "分行",
  undo: "撤销",
  reset: "清除修改",
  copyLink: "复制链接",
  more: (n) => `再显示 ${n} 句`,
  tokenAsk: "此服务需要访问令牌。",
  tokenLabel: "访问令牌",
  tokenSend: "继续",
  format: "格式",
  copy: "复制",
  download: "下载",
  wholeText: "全文",
  copied: "已复制",
  linkTooLong: "文本太长，无法生成链接。",
  copyFailed: "浏览器不允许复制，请改用下载。",
  analyses: "分析",
  analysis: (rank, prob) => `第 ${rank} 种分析，概率 ${prob}`,
  otherAnalyses: "其他分析",
  rest: (prob) => `其余 ${prob}`,
  unsure: (count, all) => `${all} 个词中 ${count} 个存疑`,
  cut: "句子太长，已拆分",
  sentence: (n) => `第 ${n} 句`,
  figure: (text) => `“${text}”的依存树`,
  pinned: "已固定",
  gap: (left, right, apart) => `${left} 与 ${right} 之间：${apart ? "词界" : "词内"}`,
  gapState: { break: "已固定为词界", join: "已固定为词内", edge: "固定词的边界", free: "未固定" },
  gapNext: { break: "点击：在此断开", join: "点击：合为一词", free: "点击：不再固定" },
  wordNext: "点击修改；拖到中心词上以改变中心词",
  pin: "固定此词",
  unpin: "取消固定",
  edit: (form) => `修改“${form}”`,
  fields: { tag: "词性", head: "中心词", relation: "关系" },
  automatic: (found) => `自动：${found}`,
  root: "句子的根",
  dropRoot: "拖到这里：作为句子的根",
  close: "关闭",
  keep: { new: "标为已校对", same: "✓ 已校对", other: "更新校对结果" },
  corrected: (n) => `已校对的句子：${n} 句`,
  correctedDownload: "下载",
  walk: (n, all, done) => `建议校对的句子：第 ${n} 句，共 ${all} 句 · 已校对 ${done} 句`,
  walkProgress: "校对进度",
  walkBack: "上一句",
  walkSkip: "跳过",
  walkRight: "全对，下一句",
  walkFixed: "只保留我固定的，下一句",
  walkFixedHow: "只把您固定的词、弧和词性算作正确，其余不算",
  walkEnd: "结束",
  correctedClear: "清空",
  remove: "移除",
  boundaryProb: "词界",
  headProb: "中心词",
  labelProb: "关系",
  uposProb: "词性",
  headIs: (form) => `中心词：${form}`,
  changes: (told) => `与自动分析相比：${told}`,
  arcsDiffer: (n) => `${n} 条弧不同`,
  tagsDiffer: (n) => `${n} 个词性不同`,
  comma: "；",
  noChange: "与自动分析相同",
  working: "正在分析……",
  legend: {
    word: "词",
    arc: "词间关系",
    inner: "词内结构",
    doubt: "颜色越深，把握越小",
    fixed: "由您固定",
    changed: "变化",
  },
  model: (name) => `模型：${name}`,
  api: "接口说明",
  retryAfter: (seconds) => `请在 ${seconds} 秒后重试。`,
  problems: {
    0: "连不上服务，请确认服务正在运行，然后重试。",
    401: "访问令牌不正确，请重新输入。",
    404: "服务没有这个接口，页面与服务的版本可能不一致。",
    413: "文本太长，超出了服务的限制，请分段提交。",
    too_long: "文本太长，超出了服务的限制，请分段提交。",
    422: "服务无法按这些要求进行分析。",
    503: "服务正忙，请稍后重试。",
    504: "分析超时，请缩短文本后重试。",
    other: "服务出错，未能完成分析。",
    page: "页面出错，无法显示结果。",
  },
};

const en = {
  title: "Zishu 字树: Chinese words, trees and the trees inside words",
  tagline: "Chinese parsing by characters: words, dependency trees, structure inside words",
  language: "中文",
  languageLabel: "切换到中文",
  theme: { auto: "System", light: "Light", dark: "Dark" },
  themeLabel: "Light or dark",
  textLabel: "Text to parse",
  placeholder: "Type or paste Chinese text here …",
  parse: "Parse",
  parseHint: "Ctrl + Enter",
  characters: (n) => `${n} character${n === 1 ? "" : "s"}`,
  empty: "Type a sentence, or try one of these:",
  summary: (sentences, words) =>
    `${sentences} sentence${sentences === 1 ? "" : "s"} · ${words} word${words === 1 ? "" : "s"}`,
  how:
    "Click a word to change its tag, head or relation; drag it onto another word to make that one its head; click " +
    "between two characters to cut or join there. The rest is parsed again, and changes are marked in violet.",
  keys: "Keyboard: Tab into a figure, ← → to move, Enter to edit, Esc to return, Ctrl + Z to undo.",
  style: "Style",
  styleLabel: "Treebank whose conventions are followed",
  styles: { gsd: "GSD, encyclopaedia", pud: "PUD, news", hk: "HK, spoken" },
  granularity: { fine: "Affixes apart", coarse: "Affixes joined" },
  granularityLabel: "Whether affixes are words of their own",
  inner: { structure: "Word formation", latent: "Latent trees" },
  innerLabel: "The trees inside words: how words are formed, or what the parser has learned by itself",
  innerNames: "Relations inside words",
  lines: { broken: "Lines end sentences", wrapped: "Join wrapped lines" },
  linesLabel: "What a line break means",
  openFile: "Open file …",
  fileTooLarge: "The file is too large.",
  fileNotText: "This is not a text file.",
  fileEmpty: "The file is empty.",
  lexicon: "Lexicon",
  lexiconHow: "Words that should stay whole, separated by spaces, commas or line breaks.",
  lexiconSoft: "Only a hint: cut them where the model is sure",
  withoutLexicon: (prob) => `without the lexicon ${prob}`,
  lexiconPlaceholder: "For example: 金融业 球拍",
  zoom: "Zoom",
  smaller: "Smaller",
  larger: "Larger",
  fit: "Fit width",
  rows: "Wrap",
  undo: "Undo",
  reset: "Reset",
  copyLink: "Copy link",
  more: (n) => `Show ${n} more sentence${n === 1 ? "" : "s"}`,
  tokenAsk: "This service needs a token.",
  tokenLabel: "Token",
  tokenSend: "Continue",
  format: "Format",
  copy: "Copy",
  download: "Download",
  wholeText: "Whole text",
  copied: "Copied",
  linkTooLong: "The text is too long for a link.",
  copyFailed: "The browser does not allow copying here; download instead.",
  analyses: "Analyses",
  analysis: (rank, prob) => `Analysis ${rank}, probability ${prob}`,
  otherAnalyses: "Other analyses",
  rest: (prob) => `others ${prob}`,
  unsure: (count, all) => `${count} of ${all} words in doubt`,
  cut: "cut because of its length",
  sentence: (n) => `Sentence ${n}`,
  figure: (text) => `Dependency tree of “${text}”`,
  pinned: "pinned",
  gap: (left, right, apart) => `Between ${left} and ${right}: ${apart ? "a word boundary" : "inside a word"}`,
  gapState: {
    break: "fixed as a boundary",
    join: "fixed as joined",
    edge: "edge of a pinned word",
    free: "not fixed",
  },
  gapNext: {
    break: "Click to cut here",
    join: "Click to join into one word",
    free: "Click to leave it to the parser",
  },
  wordNext: "Click to edit; drag onto a word to make it the head",
  pin: "Pin this word",
  unpin: "Unpin",
  edit: (form) => `Edit “${form}”`,
  fields: { tag: "Tag", head: "Head", relation: "Relation" },
  automatic: (found) => `automatic: ${found}`,
  root: "root",
  dropRoot: "Drop here to make it the root",
  close: "Close",
  keep: { new: "Mark as corrected", same: "✓ Corrected", other: "Update corrected" },
  corrected: (n) => `${n} corrected sentence${n === 1 ? "" : "s"}`,
  correctedDownload: "Download",
  walk: (n, all, done) => `Suggested sentence ${n} of ${all} · ${done} corrected`,
  walkProgress: "Corrected so far",
  walkBack: "Back",
  walkSkip: "Skip",
  walkRight: "All correct, next",
  walkFixed: "Only what I fixed, next",
  walkFixedHow: "Count only the words, arcs and tags that you fixed as correct",
  walkEnd: "End",
  correctedClear: "Clear",
  remove: "Remove",
  boundaryProb: "Boundaries",
  headProb: "Head",
  labelProb: "Relation",
  uposProb: "Part of speech",
  headIs: (form) => `head: ${form}`,
  changes: (told) => `Compared with the parser alone: ${told}`,
  arcsDiffer: (n) => `${n} arc${n === 1 ? " differs" : "s differ"}`,
  tagsDiffer: (n) => `${n} part${n === 1 ? "" : "s"} of speech differ${n === 1 ? "s" : ""}`,
  comma: "; ",
  noChange: "Same as the parser alone",
  working: "Parsing …",
  legend: {
    word: "word",
    arc: "relation",
    inner: "inside a word",
    doubt: "stronger colour: less sure",
    fixed: "fixed by you",
    changed: "changed",
  },
  model: (name) => `Model: ${name}`,
  api: "API",
  retryAfter: (seconds) => `Try again in ${seconds} s.`,
  problems: {
    0: "The service cannot be reached. Make sure that it is running, then try again.",
    401: "The token is wrong. Please enter it again.",
    404: "The service does not know this request. Page and service may have different versions.",
    413: "The text is too long for this service. Please split it.",
    too_long: "The text is too long for this service. Please split it.",
    422: "The service cannot parse the text with these corrections.",
    503: "The service is busy. Please try again in a moment.",
    504: "Parsing took too long. Please try a shorter text.",
    other: "The service had an internal error and did not parse the text.",
    page: "The page had an internal error and cannot show the result.",
  },
};

const LANGUAGES = { zh, en };
const STORED = "zishu-language";

const fromBrowser = () => (navigator.languages.some((tag) => /^zh\b/i.test(tag)) ? "zh" : "en");

let language = localStorage.getItem(STORED) in LANGUAGES ? localStorage.getItem(STORED) : fromBrowser();

export const currentLanguage = () => language;

/** Return the text for a key such as "gapState.break", filled in with values. */
export function t(key, ...values) {
  const entry = key.split(".").reduce((table, part) => table[part], LANGUAGES[language]);
  return typeof entry === "function" ? entry(...values) : entry;
}

/** Switch to the other language. */
export function switchLanguage() {
  language = language === "zh" ? "en" : "zh";
  localStorage.setItem(STORED, language);
}

/** Write the texts of the current language into the fixed parts of the page. */
export function translate(root = document) {
  document.documentElement.lang = language === "zh" ? "zh-Hans" : "en";
  document.title = t("title");
  for (const element of root.querySelectorAll("[data-i18n]")) element.textContent = t(element.dataset.i18n);
  for (const element of root.querySelectorAll("[data-i18n-label]")) {
    const words = t(element.dataset.i18nLabel);
    element.setAttribute("aria-label", words);
    element.title = words;
  }
  for (const element of root.querySelectorAll("[data-i18n-placeholder]")) {
    element.placeholder = t(element.dataset.i18nPlaceholder);
  }
}

/** Format a probability as a percentage with two or three significant digits. */
export function percent(prob) {
  if (prob === null || prob === undefined) return "–";
  const value = 100 * prob;
  if (value >= 99.95) return prob === 1 ? "100 %" : "> 99.9 %";
  if (value < 0.01) return "< 0.01 %";
  return `${value < 1 ? value.toFixed(2) : value.toFixed(1)} %`;
}
