/**
 * Sentences like those in the papers of a clinical site: a small grammar with real words, so that
 * OCR has a language to read and a search something to find. Plain letters only, and no hyphens:
 * PDF readers join words at them, and the text would differ from the plan.
 */
import type { ChanceSequence } from "./seeded-chance.ts";

type Words = readonly [string, ...string[]];

const WORDS = {
  person: [
    "the principal investigator",
    "the study coordinator",
    "the responsible physician",
    "the research nurse",
    "the delegated pharmacist",
    "the clinical monitor",
    "the laboratory director",
    "the data manager",
  ],
  body: [
    "the ethics committee",
    "the sponsor",
    "the competent authority",
    "the review board",
    "the safety committee",
    "the central laboratory",
    "the hospital administration",
  ],
  duty: [
    "shall verify",
    "must document",
    "has reviewed",
    "will archive",
    "should confirm",
    "has approved",
    "is required to assess",
    "agreed to maintain",
  ],
  record: [
    "the screening log",
    "the source documents",
    "the delegation record",
    "the calibration report",
    "the adverse event form",
    "the randomisation list",
    "the temperature record",
    "the reference ranges",
    "the dosing schedule",
    "the training certificate",
    "the monitoring plan",
    "the laboratory manual",
  ],
  moment: [
    "before the first visit",
    "within seven working days",
    "at the end of each visit",
    "during the treatment period",
    "before any sample is collected",
    "after the last follow up",
    "at least once a year",
    "when the protocol is amended",
  ],
  finding: [
    "blood pressure",
    "renal function",
    "body weight",
    "heart rate",
    "liver enzymes",
    "platelet count",
    "serum creatinine",
    "fasting glucose",
  ],
  value: [
    "remained within normal limits",
    "was recorded on two occasions",
    "showed a moderate increase",
    "did not change from baseline",
    "was measured by a validated method",
    "returned to the expected range",
  ],
  patient: [
    "adult participants",
    "patients with stable disease",
    "healthy volunteers",
    "patients in the control group",
    "participants of both groups",
    "women of childbearing potential",
  ],
} as const satisfies Readonly<Record<string, Words>>;

/** A word in braces is replaced by one of its list, {number} by a number. */
const SENTENCES: Words = [
  "{person} {duty} {record} {moment}.",
  "{body} {duty} {record} {moment}.",
  "In {number} of the {patient}, {finding} {value}.",
  "{person} informed {body} that {record} was complete.",
  "For {patient}, {finding} {value} {moment}.",
  "According to {body}, {person} {duty} {record}.",
  "A total of {number} {patient} were enrolled {moment}.",
  "{record} is kept for {number} years in a locked room of the site.",
  "Any deviation is reported to {body} {moment}.",
  "{finding} {value}, and {person} signed {record}.",
];

const CONSENT_SENTENCES: Words = [
  "Written informed consent was obtained from {patient} {moment}.",
  "{person} {duty} the informed consent form {moment}.",
  "{body} {duty} the current version of the informed consent form.",
  "No procedure of the trial is performed without informed consent of {patient}.",
];

const NUMBER_MAX = 60;
/** How many sentences of a document about consent mention it. */
const CONSENT_SHARE = 0.12;

export function composeSentence(chance: ChanceSequence, speaksOfConsent: boolean): string {
  const consent = speaksOfConsent && chance.next() < CONSENT_SHARE;
  const pattern = chance.pickOne(consent ? CONSENT_SENTENCES : SENTENCES);
  const sentence = pattern.replaceAll(/\{(\w+)\}/g, (_, slot: string) =>
    slot === "number"
      ? String(chance.pickNumber(2, NUMBER_MAX))
      : chance.pickOne<string>(WORDS[slot as keyof typeof WORDS]),
  );
  return sentence.charAt(0).toUpperCase() + sentence.slice(1);
}
