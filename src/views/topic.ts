/** Topics with their groups. A message is shown as a consumer gets it. */
import type { GroupView, TopicView as TopicFacts } from "../ports/store/topic-store.ts";

export interface TopicView {
  readonly topic: string;
  /** Messages in the store. */
  readonly messages: number;
  /** 0 when no message is kept. */
  readonly firstPosition: number;
  readonly lastPosition: number;
  readonly groups: readonly GroupView[];
}

export function viewTopic(facts: TopicFacts): TopicView {
  const { topic, messages, firstPosition, lastPosition, groups } = facts;
  return {
    topic,
    messages,
    firstPosition,
    lastPosition,
    groups: groups.map(({ group, position, lag }) => ({ group, position, lag })),
  };
}

/** A group that was moved back. */
export interface RewoundView extends GroupView {
  readonly topic: string;
}

export function viewRewound(topic: string, { group, position, lag }: GroupView): RewoundView {
  return { topic, group, position, lag };
}
