/** Of a registered worker whose permits never changed. */
export const NO_PERMITS = { seq: 1, held: [] } as const;
