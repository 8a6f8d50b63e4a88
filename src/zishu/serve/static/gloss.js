// Explain the names of Universal Dependencies in both languages. Names of other schemes have no explanation.

const UPOS = {
  ADJ: ["形容词", "adjective"],
  ADP: ["介词", "adposition"],
  ADV: ["副词", "adverb"],
  AUX: ["助动词", "auxiliary"],
  CCONJ: ["并列连词", "coordinating conjunction"],
  DET: ["限定词", "determiner"],
  INTJ: ["叹词", "interjection"],
  NOUN: ["名词", "noun"],
  NUM: ["数词", "numeral"],
  PART: ["助词、词缀", "particle, affix"],
  PRON: ["代词", "pronoun"],
  PROPN: ["专有名词", "proper noun"],
  PUNCT: ["标点", "punctuation"],
  SCONJ: ["从属连词", "subordinating conjunction"],
  SYM: ["符号", "symbol"],
  VERB: ["动词", "verb"],
  X: ["其他", "other"],
};

const RELATIONS = {
  acl: ["定语从句", "clausal modifier of a noun"],
  "acl:relcl": ["关系从句", "relative clause"],
  advcl: ["状语从句", "adverbial clause"],
  advmod: ["状语", "adverbial modifier"],
  amod: ["形容词定语", "adjectival modifier"],
  appos: ["同位语", "apposition"],
  aux: ["助动词", "auxiliary"],
  "aux:pass": ["被动标记", "passive auxiliary"],
  case: ["介词、格标记", "case marker"],
  cc: ["并列连词", "coordinating conjunction"],
  ccomp: ["小句补语", "clausal complement"],
  clf: ["量词", "classifier"],
  compound: ["复合成分", "compound"],
  conj: ["并列成分", "conjunct"],
  cop: ["系词", "copula"],
  csubj: ["小句主语", "clausal subject"],
  dep: ["未定关系", "unspecified dependency"],
  det: ["限定词", "determiner"],
  discourse: ["语气成分", "discourse element"],
  dislocated: ["移位成分", "dislocated element"],
  fixed: ["固定用语", "fixed expression"],
  flat: ["平列成分", "flat expression"],
  "flat:foreign": ["外文", "foreign words"],
  "flat:name": ["人名", "name"],
  goeswith: ["误断的词", "goes with"],
  iobj: ["间接宾语", "indirect object"],
  list: ["列举", "list"],
  mark: ["从句标记", "marker"],
  "mark:adv": ["状语标记", "adverbial marker"],
  "mark:rel": ["定语标记", "relative marker"],
  nmod: ["名词定语", "nominal modifier"],
  "nmod:tmod": ["时间定语", "temporal modifier"],
  nsubj: ["主语", "nominal subject"],
  "nsubj:pass": ["被动主语", "passive subject"],
  nummod: ["数词定语", "numeric modifier"],
  obj: ["宾语", "object"],
  obl: ["旁语", "oblique nominal"],
  "obl:agent": ["施事", "agent"],
  "obl:patient": ["受事（把字句）", "patient"],
  "obl:tmod": ["时间状语", "temporal oblique"],
  orphan: ["孤立成分", "orphan"],
  parataxis: ["并置", "parataxis"],
  punct: ["标点", "punctuation"],
  reparandum: ["改口", "overridden disfluency"],
  root: ["句子的根", "root"],
  vocative: ["呼语", "vocative"],
  xcomp: ["开放补语", "open clausal complement"],
};

const explain = (table) => (name, language) => {
  const words = table[name] ?? table[name?.split(":")[0]];
  return words ? words[language === "zh" ? 0 : 1] : "";
};

/** Return the explanation of a part of speech, "" if it is unknown. */
export const explainUpos = explain(UPOS);

/** Return the explanation of a relation, "" if it is unknown. */
export const explainRelation = explain(RELATIONS);

/** Write a name with its explanation. */
export const glossed = (name, explained) => (explained ? `${name} ${explained}` : (name ?? "–"));
