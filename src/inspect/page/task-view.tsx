import { useEffect, useState } from 'preact/hooks';
import type { InspectInfo, ReplayReport, ShownHead, ShownRow, TaskDetail } from '../wire.ts';
import { Actions } from './actions.tsx';
import { follow, taskPath, text } from './api.ts';
import { age, dollars, duration, moment, plural, standing, tokens } from './format.ts';
import { Messages } from './messages.tsx';
import { Code, Copy, Fault, State, useApi, useNow } from './parts.tsx';
import { linkTo, type Place, replacePlace } from './place.ts';
import { Questions } from './questions.tsx';
import { Records } from './records.tsx';
import { About, Related } from './related.tsx';
import { Timeline } from './timeline.tsx';

interface Live {
  readonly rows: readonly ShownRow[];
  readonly head?: ShownHead;
  /** Of the model call that runs. */
  readonly text: string;
  readonly isOver: boolean;
  readonly error?: unknown;
}

/** The rows of a turn as they come. */
function useLive(taskId: string): Live {
  const [live, setLive] = useState<Live>({ rows: [], text: '', isOver: false });
  useEffect(() => {
    const left = new AbortController();
    let rows: ShownRow[] = [];
    follow(
      taskId,
      (event) => {
        if (event.type === 'rows') {
          rows = rows.slice();
          for (const row of event.rows) rows[row.index] = row;
          const { head } = event;
          setLive((before) => ({ ...before, rows, head }));
        } else if (event.type === 'text') setLive((before) => ({ ...before, text: event.text }));
        else if (event.type === 'end') setLive((before) => ({ ...before, isOver: true, text: '' }));
        else setLive((before) => ({ ...before, error: new Error(event.message) }));
      },
      left.signal,
    ).catch((error) => setLive((before) => ({ ...before, error })));
    return () => left.abort();
  }, [taskId]);
  return live;
}

const tabs = ['timeline', 'messages', 'questions', 'records', 'related', 'about'] as const;
const names = {
  timeline: 'Timeline',
  messages: 'Messages',
  questions: 'Questions',
  records: 'Records',
  related: 'Sub-agents and forks',
  about: 'Usage and settings',
} as const;

interface TaskViewProps {
  readonly taskId: string;
  readonly info: InspectInfo;
  readonly query: Place['query'];
}

export function TaskView({ taskId, info, query }: TaskViewProps) {
  const live = useLive(taskId);
  const [version, setVersion] = useState(0);
  const { data: detail, error } = useApi<TaskDetail>(taskPath(taskId), `${live.head?.seq} ${version}`);
  const [replay, setReplay] = useState<ReplayReport>();
  const tab = tabs.find((each) => each === query['tab']) ?? 'timeline';
  const show = (next: string, more: Place['query'] = {}) =>
    replacePlace({ path: ['task', taskId], query: { tab: next, ...more } });
  const move = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined) return;
    const next = tabs[(tabs.indexOf(tab) + step + tabs.length) % tabs.length] ?? tab;
    show(next);
    document.querySelector<HTMLElement>(`#tab-${next}`)?.focus();
  };
  if (!detail)
    return (
      <main>
        <Fault error={error} />
        {error === undefined && <p class="hint">Reading…</p>}
      </main>
    );
  const open = detail.questions.filter(({ isOpen }) => isOpen);
  const marked = new Set(replay?.deviations.map(({ seq }) => seq));
  const record = query['record'] === undefined ? undefined : Number(query['record']);
  const counts: Partial<Record<(typeof tabs)[number], number>> = {
    questions: detail.questions.length,
    records: live.head?.seq ?? detail.summary.seq,
    related: detail.below.length,
  };
  return (
    <main>
      <Head detail={detail} live={live} />
      <Fault error={live.error ?? error} />
      <div class="actions">
        <Actions detail={detail} info={info} onDone={() => setVersion(version + 1)} onReplay={setReplay} />
        <Copy label="Copy id" text={() => taskId} />
        <Copy label="Copy as JSON" text={() => JSON.stringify(detail, null, 2)} />
        <Export taskId={taskId} />
      </div>
      {replay && <Replayed report={replay} taskId={taskId} onClose={() => setReplay(undefined)} />}
      {open.length > 0 && (
        <section aria-label="Open questions">
          <Questions questions={open} detail={detail} info={info} onDone={() => setVersion(version + 1)} />
        </section>
      )}
      <div class="tabs" role="tablist" aria-label="Views of the turn" onKeyDown={move}>
        {tabs.map((each) => (
          <button
            key={each}
            id={`tab-${each}`}
            type="button"
            role="tab"
            aria-selected={each === tab}
            aria-controls="panel"
            tabIndex={each === tab ? 0 : -1}
            onClick={() => show(each)}
          >
            {names[each]}
            {counts[each] !== undefined && counts[each] > 0 && (
              <span class="count">{counts[each].toLocaleString('en-US')}</span>
            )}
          </button>
        ))}
      </div>
      <div id="panel" role="tabpanel" aria-labelledby={`tab-${tab}`}>
        {tab === 'timeline' && (
          <Timeline taskId={taskId} rows={live.rows} text={live.text} isOver={live.isOver} marked={marked} />
        )}
        {tab === 'messages' && <Messages taskId={taskId} version={live.head?.seq ?? 0} />}
        {tab === 'questions' && (
          <Questions questions={detail.questions} detail={detail} info={info} onDone={() => setVersion(version + 1)} />
        )}
        {tab === 'records' && (
          <Records taskId={taskId} count={live.head?.seq ?? detail.summary.seq} marked={marked} target={record} />
        )}
        {tab === 'related' && <Related detail={detail} />}
        {tab === 'about' && <About detail={detail} />}
      </div>
    </main>
  );
}

function Head({ detail, live }: { readonly detail: TaskDetail; readonly live: Live }) {
  const now = useNow();
  const { summary, prompt, parent, forkedFrom, error, reason, cost, usage, iteration, toolCalls } = detail;
  const state = live.head?.state ?? summary.state;
  const ended = live.isOver || state === 'completed' || state === 'failed' || state === 'canceled';
  const began = Date.parse(summary.createdAt);
  const took = ended ? detail.durationMs : now - began;
  const why = error ? `${error.code}: ${error.message}` : state === 'canceled' ? reason : undefined;
  return (
    <div class="head">
      <div class="line">
        <State state={standing(state, summary.held)} />
        <span class="about">
          <span>{summary.agentId}</span>
          <code>{summary.taskId}</code>
          {parent && <a href={linkTo(['task', parent.taskId])}>parent turn</a>}
          {parent && parent.rootTaskId !== parent.taskId && <a href={linkTo(['task', parent.rootTaskId])}>root turn</a>}
          {forkedFrom && (
            <a href={linkTo(['task', forkedFrom.taskId])}>
              {forkedFrom.isRetry ? 'retry of' : 'forked from'} {forkedFrom.taskId}
            </a>
          )}
        </span>
      </div>
      <h1>{prompt || 'No prompt'}</h1>
      {why !== undefined && <p class="why">{why}</p>}
      <dl class="figures">
        <Figure name="Started" value={`${age(summary.createdAt, now)} ago`} title={moment(summary.createdAt)} />
        <Figure name="Duration" value={duration(took)} />
        <Figure name="Iterations" value={String(live.head?.iteration ?? iteration)} />
        <Figure name="Tool calls" value={toolCalls.toLocaleString('en-US')} />
        <Figure name="Tokens" value={tokens(usage.totalTokens)} />
        <Figure
          name="Cost"
          value={dollars(cost)}
          title={cost === undefined ? 'The price of a model is not known.' : ''}
        />
      </dl>
    </div>
  );
}

function Figure({
  name,
  value,
  title = '',
}: {
  readonly name: string;
  readonly value: string;
  readonly title?: string;
}) {
  return (
    <div title={title || undefined}>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

/** Saves the journal as `millrace export` writes it. */
function Export({ taskId }: { readonly taskId: string }) {
  const save = async () => {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([await text(`${taskPath(taskId)}/export`)]));
    link.download = `${taskId.replaceAll(':', '_')}.jsonl`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1_000);
  };
  return (
    <button type="button" class="quiet" onClick={() => void save()}>
      Export
    </button>
  );
}

interface ReplayedProps {
  readonly report: ReplayReport;
  readonly taskId: string;
  readonly onClose: () => void;
}

function Replayed({ report: { records, deviations }, taskId, onClose }: ReplayedProps) {
  return (
    <section class="card" aria-label="Replay">
      <div class="line">
        <h2>
          {deviations.length === 0
            ? 'The replay did the same'
            : `The replay differs in ${plural(deviations.length, 'place')}`}
        </h2>
        <button type="button" class="quiet" onClick={onClose}>
          Close
        </button>
      </div>
      <p class="hint">
        {plural(records, 'record')} replayed with the tools, the prompt and the limits of the agent; no tool ran.
      </p>
      <ul class="plain">
        {deviations.map(({ seq, what, expected, got }) => (
          <li key={`${seq} ${what}`}>
            <a href={linkTo(['task', taskId], { tab: 'records', record: String(seq) })}>Record {seq}</a> {what}
            <div class="pair">
              <Code label="Recorded" text={shown(expected)} />
              <Code label="Replayed" text={shown(got)} />
            </div>
          </li>
        ))}
      </ul>
    </section>
  );
}

function shown(value: unknown): string {
  return value === undefined ? 'nothing' : JSON.stringify(value, null, 2);
}
