/** Topics and their messages as people and machines are shown them. */
import type { TopicMessage } from "../../ports/store/topic-message.ts";
import type { TopicView } from "../../ports/store/topics.ts";
import { formatCount } from "../output/format-number.ts";
import { makeInert } from "../output/inert-text.ts";
import type { Screen } from "../output/screen.ts";
import { type Column, renderTable } from "../output/table.ts";

/** A row for each group, and one for a topic that has none. */
export function renderTopics(topics: readonly TopicView[], screen: Screen): string[] {
  const columns: Column[] = [
    { title: "TOPIC", elastic: true },
    { title: "MESSAGES", align: "right" },
    { title: "LAST", align: "right" },
    { title: "GROUP" },
    { title: "POSITION", align: "right" },
    { title: "LAG", align: "right", paint: screen.colours.yellow },
  ];
  const rows = topics.flatMap(({ topic, messages, lastPosition, groups }) => {
    const facts = [makeInert(topic), formatCount(messages), String(lastPosition)];
    if (groups.length === 0) return [[...facts, "-", "-", "-"]];
    return groups.map(({ group, position, lag }) => [
      ...facts,
      makeInert(group),
      String(position),
      formatCount(lag),
    ]);
  });
  return renderTable(columns, rows, screen);
}

export function renderMessages(messages: readonly TopicMessage[], screen: Screen): string[] {
  const columns: Column[] = [
    { title: "POSITION", align: "right" },
    { title: "ID" },
    { title: "AT", paint: screen.colours.dim },
    { title: "DATA", elastic: true },
  ];
  const rows = messages.map(({ position, id, at, data }) => [
    String(position),
    makeInert(id),
    at,
    makeInert(JSON.stringify(data)),
  ]);
  return renderTable(columns, rows, screen);
}
