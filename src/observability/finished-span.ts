/** A span that has ended, as plain data: what the waterfall is drawn from. */
export interface FinishedSpan {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  /** Absent on the root of a trace. */
  readonly parentSpanId?: string;
  /** Milliseconds since 1970, with fractions. */
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Readonly<Record<string, unknown>>;
  /** The linked spans. Absent if there are none. */
  readonly links?: readonly { readonly traceId: string; readonly spanId: string }[];
  readonly status: { readonly code: 'unset' | 'ok' | 'error'; readonly message?: string };
}
