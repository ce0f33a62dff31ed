/** Rows up to a size, so that a page fits the memory however large its rows are. */
export interface PageSize<Row> {
  readonly sizeMax: number;
  readonly measure: (row: Row) => number;
}

/** The first row always fits. */
export function fillPage<Row>(rows: Iterable<Row>, { sizeMax, measure }: PageSize<Row>): Row[] {
  const page: Row[] = [];
  let size = 0;
  for (const row of rows) {
    size += measure(row);
    if (page.length > 0 && size > sizeMax) break;
    page.push(row);
  }
  return page;
}
