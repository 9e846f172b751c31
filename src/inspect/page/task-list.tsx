import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import type { TaskSummary } from '../../core/contracts/index.ts';
import type { TaskNote, TaskPage } from '../wire.ts';
import { get } from './api.ts';
import { age, dollars, grouped, shownState, standing, tokens } from './format.ts';
import { Button, Fault, State, useNow } from './parts.tsx';
import { linkTo, type Place, replacePlace } from './place.ts';
import { Windowed } from './windowed.tsx';

const refreshMs = 2_000;
const pageSize = 200;
const filters = 'working resumable input-required auth-required submitted completed failed canceled'.split(' ');

/** The tasks of the store, page after page as they come into view; the first page is read again every two seconds. */
function useTasks(query: string) {
  const [tasks, setTasks] = useState<readonly TaskSummary[]>([]);
  const [next, setNext] = useState<string | undefined>();
  const [isReading, setReading] = useState(true);
  const [error, setError] = useState<unknown>();
  const turn = useRef(0);
  const busy = useRef(false);
  useEffect(() => {
    const left = new AbortController();
    const mine = ++turn.current;
    let timer = 0;
    const read = async (isFirst: boolean) => {
      try {
        const page = await get<TaskPage>(`tasks?limit=${pageSize}${query}`, left.signal);
        if (mine !== turn.current) return;
        if (isFirst) setNext(page.next);
        setTasks((before) => (isFirst ? page.tasks : merged(page.tasks, before)));
        setError(undefined);
      } catch (thrown) {
        if (!left.signal.aborted) setError(thrown);
      }
      if (left.signal.aborted) return;
      setReading(false);
      wait();
    };
    const wait = () => {
      timer = window.setTimeout(() => (document.hidden ? wait() : void read(false)), refreshMs);
    };
    setReading(true);
    void read(true);
    return () => {
      left.abort();
      clearTimeout(timer);
    };
  }, [query]);
  const more = useCallback(async () => {
    if (next === undefined || busy.current) return;
    busy.current = true;
    const mine = turn.current;
    try {
      const page = await get<TaskPage>(`tasks?limit=${pageSize}${query}&after=${encodeURIComponent(next)}`);
      if (mine !== turn.current) return;
      setTasks((before) => merged(before, page.tasks));
      setNext(page.next);
    } catch (thrown) {
      setError(thrown);
    } finally {
      busy.current = false;
    }
  }, [next, query]);
  return { tasks, next, more, isReading, error };
}

/** The first ones as they are, then those of the others that are not among them. */
function merged(first: readonly TaskSummary[], then: readonly TaskSummary[]): readonly TaskSummary[] {
  const known = new Set(first.map(({ taskId }) => taskId));
  return [...first, ...then.filter(({ taskId }) => !known.has(taskId))];
}

/** The notes of the tasks on the screen, read once for each state that they are in. */
function useNotes(tasks: readonly TaskSummary[]) {
  const notes = useRef(new Map<string, TaskNote>());
  const asked = useRef(new Map<string, number>());
  const [, draw] = useState(0);
  const look = useCallback(
    (start: number, end: number) => {
      const missing = tasks.slice(start, end).filter(({ taskId, seq }) => asked.current.get(taskId) !== seq);
      if (missing.length === 0) return;
      for (const { taskId, seq } of missing) asked.current.set(taskId, seq);
      const ids = missing.map(({ taskId }) => taskId).join(',');
      get<readonly TaskNote[]>(`notes?ids=${encodeURIComponent(ids)}`).then(
        (found) => {
          for (const note of found) notes.current.set(note.taskId, note);
          draw((times) => times + 1);
        },
        () => {
          for (const { taskId } of missing) asked.current.delete(taskId);
        },
      );
    },
    [tasks],
  );
  return { notes: notes.current, look };
}

export function TaskList({ place: { query } }: { readonly place: Place }) {
  const { state = '', q = '', children } = query;
  const search = `${state && `&state=${state}`}${q && `&q=${encodeURIComponent(q)}`}${children === undefined ? '' : '&children'}`;
  const { tasks, next, more, isReading, error } = useTasks(search);
  const { notes, look } = useNotes(tasks);
  const now = useNow();
  const onRange = useCallback(
    (start: number, end: number) => {
      look(start, end);
      if (end >= tasks.length - 20) void more();
    },
    [look, more, tasks.length],
  );
  const count = grouped(tasks.length);
  return (
    <main>
      <h1>Turns</h1>
      <Filters query={query} />
      <Fault error={error} />
      <div class="columns task" aria-hidden="true">
        <span>State</span>
        <span>Turn</span>
        <span class="number">Tokens</span>
        <span class="number">Cost</span>
        <span class="number">Age</span>
      </div>
      <Windowed
        label="Turns"
        count={tasks.length}
        height={64}
        onRange={onRange}
        row={(index) => <Row task={tasks[index]} note={notes.get(tasks[index]?.taskId ?? '')} now={now} />}
      />
      <p class="hint" role="status">
        {next !== undefined
          ? `${count} so far, more as you scroll.`
          : tasks.length > 0
            ? `${count} in all.`
            : isReading || error !== undefined
              ? 'Reading…'
              : search === ''
                ? 'This store has no turns yet.'
                : 'No turn fits.'}
        {next !== undefined && q !== '' && (
          <Button class="quiet" onClick={() => void more()}>
            Search further
          </Button>
        )}
      </p>
    </main>
  );
}

/** Which turns are listed: kept in the address, so that a reload and a link keep it. */
function Filters({ query }: Pick<Place, 'query'>) {
  const { state = '', q = '', children } = query;
  const change = (changes: Place['query']) => replacePlace({ path: [], query: { ...query, ...changes } });
  return (
    <search class="toolbar">
      <input
        type="search"
        aria-label="Search ids, prompts and errors"
        placeholder="Search ids, prompts and errors"
        value={q}
        onInput={({ currentTarget }) => change({ q: currentTarget.value || undefined })}
      />
      <select
        aria-label="State"
        value={state}
        onChange={({ currentTarget }) => change({ state: currentTarget.value || undefined })}
      >
        <option value="">All states</option>
        {filters.map((value) => (
          <option key={value} value={value}>
            {shownState(value).label}
          </option>
        ))}
      </select>
      <Button
        aria-pressed={state === 'failed'}
        onClick={() => change({ state: state === 'failed' ? undefined : 'failed' })}
      >
        Failed only
      </Button>
      <label>
        <input
          type="checkbox"
          checked={children !== undefined}
          onChange={({ currentTarget }) => change({ children: currentTarget.checked ? '1' : undefined })}
        />
        Sub-agents
      </label>
    </search>
  );
}

interface RowProps {
  readonly task: TaskSummary | undefined;
  readonly note: TaskNote | undefined;
  readonly now: number;
}

function Row({ task, note, now }: RowProps) {
  if (!task) return null;
  const { taskId, agentId, state, held, createdAt } = task;
  const wrong = note?.error ?? note?.unreadable;
  return (
    <a class="task row" href={linkTo(['task', taskId])}>
      <State state={standing(state, held)} />
      <span class="what">
        <span class="title">{note?.prompt || (note ? 'No prompt' : ' ')}</span>
        <span class="about">
          <span>{agentId}</span>
          <code>{taskId}</code>
          {held && <span>a process runs it</span>}
          {task.parentTaskId !== undefined && <span>sub-agent</span>}
          {note?.forkedFrom !== undefined && <span>fork</span>}
          {wrong !== undefined && <span class="bad">{wrong}</span>}
        </span>
      </span>
      <span class="number">{note ? tokens(note.tokens) : ''}</span>
      <span class="number">{note ? dollars(note.cost) : ''}</span>
      <time class="number" dateTime={createdAt}>
        {age(createdAt, now)}
      </time>
    </a>
  );
}
