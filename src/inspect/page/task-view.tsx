import { useEffect, useRef, useState } from 'preact/hooks';
import type { InspectInfo, ReplayReport, ShownHead, ShownRow, TaskDetail } from '../wire.ts';
import { About } from './about.tsx';
import { Actions } from './actions.tsx';
import { follow, taskPath, text } from './api.ts';
import { age, dollars, duration, grouped, moment, plural, standing, tokens } from './format.ts';
import { Messages } from './messages.tsx';
import { Button, Code, Copy, Fault, State, useApi, useNow } from './parts.tsx';
import { linkTo, type Place, replacePlace } from './place.ts';
import { Questions } from './questions.tsx';
import { Records } from './records.tsx';
import { Related } from './related.tsx';
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
  if (!detail)
    return (
      <main>
        <Fault error={error} />
        {error === undefined && <p class="hint">Reading…</p>}
      </main>
    );
  const [tab] = tabs.find(([each]) => each === query['tab']) ?? tabs[0];
  const onDone = () => setVersion(version + 1);
  const open = detail.questions.filter(({ isOpen }) => isOpen);
  return (
    <main>
      <Head detail={detail} live={live} />
      <Fault error={live.error ?? error} />
      <div class="actions">
        <Actions detail={detail} info={info} onDone={onDone} onReplay={setReplay} />
        <Copy label="Copy id" text={() => taskId} />
        <Copy label="Copy as JSON" text={() => JSON.stringify(detail, null, 2)} />
        <Export taskId={taskId} />
      </div>
      {replay && <Replayed report={replay} taskId={taskId} onClose={() => setReplay(undefined)} />}
      {open.length > 0 && tab !== 'questions' && (
        <section aria-label="Open questions">
          <Questions questions={open} detail={detail} info={info} onDone={onDone} />
        </section>
      )}
      <Tabs tab={tab} detail={detail} records={live.head?.seq ?? detail.summary.seq} />
      <div id="panel" role="tabpanel" aria-labelledby={`tab-${tab}`}>
        <Panel {...{ tab, detail, live, info, query, replay, onDone }} />
      </div>
    </main>
  );
}

const tabs = [
  ['timeline', 'Timeline'],
  ['messages', 'Messages'],
  ['questions', 'Questions'],
  ['records', 'Records'],
  ['related', 'Sub-agents and forks'],
  ['about', 'Usage and settings'],
] as const;
type Tab = (typeof tabs)[number][0];

interface TabsProps {
  readonly tab: Tab;
  readonly detail: TaskDetail;
  /** How many there are. */
  readonly records: number;
}

function Tabs({ tab, detail, records }: TabsProps) {
  const { summary, questions, below } = detail;
  const counts: Partial<Record<Tab, number>> = { questions: questions.length, records, related: below.length };
  const list = useRef<HTMLDivElement>(null);
  // On a small screen the tab may be out of sight.
  useEffect(() => {
    const shown = list.current?.querySelector<HTMLElement>('[aria-selected="true"]');
    list.current?.scrollTo(shown ? shown.offsetLeft - 40 : 0, 0);
  }, [tab]);
  const show = (next: Tab) => replacePlace({ path: ['task', summary.taskId], query: { tab: next } });
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined) return;
    const at = tabs.findIndex(([each]) => each === tab) + step;
    const [next] = tabs.at(at % tabs.length) ?? tabs[0];
    show(next);
    document.querySelector<HTMLElement>(`#tab-${next}`)?.focus();
  };
  return (
    <div ref={list} class="tabs" role="tablist" aria-label="Views of the turn" onKeyDown={onKeyDown}>
      {tabs.map(([each, name]) => (
        <Button
          key={each}
          id={`tab-${each}`}
          role="tab"
          aria-selected={each === tab}
          aria-controls="panel"
          tabIndex={each === tab ? 0 : -1}
          onClick={() => show(each)}
        >
          {name}
          {counts[each] !== undefined && counts[each] > 0 && <span class="count">{grouped(counts[each])}</span>}
        </Button>
      ))}
    </div>
  );
}

interface PanelProps extends Omit<TaskViewProps, 'taskId'> {
  readonly tab: Tab;
  readonly detail: TaskDetail;
  readonly live: Live;
  readonly replay: ReplayReport | undefined;
  readonly onDone: () => void;
}

/** What a tab shows. */
function Panel({ tab, detail, live, info, query, replay, onDone }: PanelProps) {
  const { taskId, seq } = detail.summary;
  const marked = new Set(replay?.deviations.map((deviation) => deviation.seq));
  switch (tab) {
    case 'timeline':
      return <Timeline taskId={taskId} rows={live.rows} text={live.text} isOver={live.isOver} marked={marked} />;
    case 'messages':
      return <Messages taskId={taskId} version={live.head?.seq ?? 0} />;
    case 'questions':
      return <Questions questions={detail.questions} detail={detail} info={info} onDone={onDone} />;
    case 'records': {
      const target = query['record'] === undefined ? undefined : Number(query['record']);
      return <Records taskId={taskId} count={live.head?.seq ?? seq} marked={marked} target={target} />;
    }
    case 'related':
      return <Related detail={detail} />;
    case 'about':
      return <About detail={detail} />;
  }
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
        <Figure name="Tool calls" value={grouped(toolCalls)} />
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
    <Button class="quiet" onClick={() => void save()}>
      Export
    </Button>
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
        <Button class="quiet" onClick={onClose}>
          Close
        </Button>
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
