/** Topics with their groups, and messages. */
import type { TopicMessage } from "../../ports/store/topic-message.ts";
import type { TopicView } from "../../views/topic.ts";
import type { Screen } from "../output/screen.ts";
import { type Column, renderTable } from "../output/table.ts";

interface GroupRow {
  readonly view: TopicView;
  /** Null for a topic without groups. */
  readonly group: TopicView["groups"][number] | null;
}

/** A row for each group, and one for a topic that has none. */
export function renderTopics(topics: readonly TopicView[], screen: Screen): string[] {
  const rows = topics.flatMap((view): GroupRow[] =>
    view.groups.length === 0
      ? [{ view, group: null }]
      : view.groups.map((group) => ({ view, group })),
  );
  const columns: Column<GroupRow>[] = [
    { title: "TOPIC", value: ({ view }) => view.topic, elastic: true },
    { title: "MESSAGES", value: ({ view }) => view.messages, align: "right" },
    { title: "LAST", value: ({ view }) => String(view.lastPosition), align: "right" },
    { title: "GROUP", value: ({ group }) => group?.group ?? null },
    {
      title: "POSITION",
      value: ({ group }) => (group === null ? null : String(group.position)),
      align: "right",
    },
    {
      title: "LAG",
      value: ({ group }) => group?.lag ?? null,
      align: "right",
      paint: screen.colours.yellow,
    },
  ];
  return renderTable(columns, rows, screen);
}

export function renderMessages(messages: readonly TopicMessage[], screen: Screen): string[] {
  const columns: Column<TopicMessage>[] = [
    { title: "POSITION", value: ({ position }) => String(position), align: "right" },
    { title: "ID", value: ({ id }) => id },
    { title: "AT", value: ({ at }) => at, paint: screen.colours.dim },
    { title: "DATA", value: ({ data }) => JSON.stringify(data), elastic: true },
  ];
  return renderTable(columns, messages, screen);
}
