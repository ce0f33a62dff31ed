/** An item that has a certain outcome. */
import type { ListedItem } from "../runtime/engine/item-list.ts";

export interface ItemView {
  /** The item's number in its step. */
  readonly item: number;
  /** What it holds; null where only the source has it. */
  readonly payload: unknown;
}

export function viewItem({ item, value }: ListedItem): ItemView {
  return { item, payload: value ?? null };
}
