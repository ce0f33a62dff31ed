/** Why a batch waits: one line, then how many chunks wait for what, then the next few chunks. */
import type { WhyView } from "../../views/why.ts";
import { makeInert } from "../output/inert-text.ts";
import type { Screen } from "../output/screen.ts";
import { type Column, renderTable } from "../output/table.ts";

const REASONS: readonly Column<WhyView["reasons"][number]>[] = [
  { title: "CHUNKS", value: ({ chunks }) => chunks, align: "right" },
  { title: "WAIT FOR", value: ({ code }) => code },
];

const CHUNKS: readonly Column<WhyView["next"][number]>[] = [
  { title: "CHUNK", value: ({ chunk }) => String(chunk), align: "right" },
  { title: "WHY", value: ({ message }) => message, elastic: true },
];

export function renderWhy({ code, message, reasons, next }: WhyView, screen: Screen): string[] {
  const answer = `${screen.colours.bold(code)}: ${makeInert(message)}`;
  // A batch that has ended waits for nothing.
  if (next.length === 0 || code === "ended") return [answer];
  return [
    answer,
    "",
    ...renderTable(REASONS, reasons, screen),
    "",
    ...renderTable(CHUNKS, next, screen),
  ];
}
