/** Events and messages that were not delivered. */
import type { DeliveryView } from "../../views/delivery.ts";
import { formatAge } from "../output/format-duration.ts";
import type { Screen } from "../output/screen.ts";
import { type Column, renderTable } from "../output/table.ts";

export function renderDeliveries(
  deliveries: readonly DeliveryView[],
  wallMs: number,
  screen: Screen,
): string[] {
  const { red, dim } = screen.colours;
  const columns: Column<DeliveryView>[] = [
    { title: "DELIVERY", value: ({ delivery }) => String(delivery), align: "right" },
    { title: "READER", value: ({ reader }) => reader, elastic: true },
    { title: "EVENT", value: ({ event }) => event },
    { title: "TYPE", value: ({ type }) => type },
    { title: "CODE", value: ({ code }) => code, paint: red },
    { title: "ATTEMPTS", value: ({ attempts }) => attempts, align: "right" },
    {
      title: "GIVEN UP",
      value: ({ givenUpAt }) => formatAge(Math.max(0, wallMs - Date.parse(givenUpAt))),
      align: "right",
      paint: dim,
    },
    { title: "MESSAGE", value: ({ message }) => message, below: true },
  ];
  return renderTable(columns, deliveries, screen);
}
