import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { eventually } from '../eventually.ts';
import { realPart } from './real-part.ts';

export interface SeenSpan {
  readonly name: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
}

export interface Jaeger {
  /** Takes OTLP over HTTP. */
  readonly otlpUrl: string;
  /** The spans of a trace, once there are as many: asks `/api/v3/traces`. */
  trace(traceId: string, spans: number): Promise<readonly SeenSpan[]>;
  /** Ends it where it was started here. */
  close(): Promise<void>;
}

/** The one at `JAEGER_URL`, else a process of its own on its usual ports. OTLP goes to `JAEGER_OTLP_URL`, else to port 4318 beside it. */
export async function startJaeger(): Promise<Jaeger> {
  const { url: given, bin } = realPart('jaeger');
  const url = given ?? 'http://127.0.0.1:16686';
  const child = given === undefined && bin !== undefined ? spawn(bin, [], { stdio: 'ignore' }) : undefined;
  const otlpUrl = process.env['JAEGER_OTLP_URL'] ?? Object.assign(new URL(url), { port: '4318' }).origin;
  const answersNow = () =>
    answered(async () => ((await fetch(new URL('/api/v3/services', url))).ok ? true : undefined));
  if (child) await answersNow();
  return {
    otlpUrl,
    trace: (traceId, spans) =>
      answered(async () => {
        const answer = await fetch(new URL(`/api/v3/traces/${traceId}`, url));
        const found = answer.ok ? spansOf(JSON.parse(await answer.text())) : [];
        return found.length >= spans ? found : undefined;
      }),
    close: async () => {
      if (child) await ended(child);
    },
  };
}

interface TraceAnswer {
  readonly result?: {
    readonly resourceSpans?: readonly { readonly scopeSpans?: readonly { readonly spans?: readonly SeenSpan[] }[] }[];
  };
}

function spansOf({ result }: TraceAnswer): readonly SeenSpan[] {
  return (result?.resourceSpans ?? []).flatMap(({ scopeSpans = [] }) => scopeSpans.flatMap(({ spans = [] }) => spans));
}

/** Asks again and again until there is an answer. */
async function answered<T>(ask: () => Promise<T | undefined>): Promise<T> {
  let answer: T | undefined;
  await eventually(async () => {
    answer = await ask().catch(() => undefined);
    return answer !== undefined;
  });
  if (answer === undefined) throw new Error('Jaeger did not answer.');
  return answer;
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  const gone = once(child, 'exit');
  child.kill('SIGTERM');
  await gone;
}
