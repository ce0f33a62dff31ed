/**
 * The corpus, for its users: planned by `plan-corpus.ts`, its text and bytes made one by one here,
 * written to disk by `prepare.ts` and served by `portal.ts`.
 */
export { type CorpusOptions, planCorpus } from "./plan-corpus.ts";
export {
  DOCUMENT_KINDS,
  type DocumentKind,
  type PlannedDocument,
} from "./planned-document.ts";
export { renderDocument } from "./render-document.ts";
export { renderText } from "./render-text.ts";
