import { useState } from 'preact/hooks';
import type { InspectInfo, ReplayReport, TaskDetail } from '../wire.ts';
import { get, post, taskPath } from './api.ts';
import { Button, Dialog, Fault } from './parts.tsx';
import { goTo } from './place.ts';

interface ActionsProps {
  readonly detail: TaskDetail;
  readonly info: InspectInfo;
  readonly onDone: () => void;
  readonly onReplay: (report: ReplayReport) => void;
}

/** Posts an action, then shows the turn that it leaves: the same, or a new one. */
type Act = (name: string, body: object) => Promise<void>;

/** What can be done with a turn in its state. */
export function Actions({ detail, info, onDone, onReplay }: ActionsProps) {
  const [error, setError] = useState<unknown>();
  const { summary, parent, iteration } = detail;
  const { taskId, state, held } = summary;
  const path = taskPath(taskId);
  const isOver = state === 'completed' || state === 'failed' || state === 'canceled' || state === 'rejected';
  const isOwn = info.agentId === summary.agentId && !parent;
  const isRoot = parent === undefined;
  const act: Act = async (name, body) => {
    const done = await post<{ readonly taskId: string }>(`${path}/${name}`, body);
    if (done.taskId === taskId) onDone();
    else goTo(['task', done.taskId]);
  };
  const tried = (action: () => Promise<void>) => () => void action().then(() => setError(undefined), setError);
  return (
    <>
      {info.write && isOwn && !isOver && !held && (
        <Button class="main" onClick={tried(() => act('resume', {}))}>
          Resume
        </Button>
      )}
      {info.write && isRoot && (state === 'failed' || state === 'canceled') && (
        <Button class="main" onClick={tried(() => act('retry', {}))}>
          Retry
        </Button>
      )}
      {info.write && !isOver && <Steer act={act} />}
      {info.write && <Fork act={act} iteration={iteration} />}
      {info.write && isRoot && !isOver && <Cancel act={act} />}
      {isOwn && (
        <Button onClick={tried(async () => onReplay(await get<ReplayReport>(`${path}/replay`)))}>Replay</Button>
      )}
      <Compare detail={detail} />
      <Fault error={error} />
    </>
  );
}

function Steer({ act }: { readonly act: Act }) {
  return (
    <Dialog
      title="Steer the turn"
      label="Steer"
      submit="Send"
      onSubmit={(form) => act('steer', { text: form.get('text') })}
    >
      <label>
        A message that the model reads before its next call; if this one is its last, in the next turn
        <textarea name="text" rows={4} required />
      </label>
    </Dialog>
  );
}

function Fork({ act, iteration }: { readonly act: Act; readonly iteration: number }) {
  return (
    <Dialog title="Fork the turn" label="Fork" submit="Fork" onSubmit={(form) => act('fork', forkOf(form))}>
      <label>
        Keep the iterations up to
        <input name="at" type="number" min={0} max={iteration} value={Math.max(0, iteration - 1)} required />
      </label>
      <label>
        Add a message (optional)
        <textarea name="append" rows={3} />
      </label>
      <label>
        Other edits, as JSON (optional)
        <textarea name="edits" rows={3} class="code" placeholder={'{"results":{"1:0":{"content":"…"}}}'} />
      </label>
    </Dialog>
  );
}

function forkOf(form: FormData): object {
  const append = String(form.get('append')).trim();
  const given = String(form.get('edits')).trim();
  const edits = {
    ...(given === '' ? {} : JSON.parse(given)),
    ...(append !== '' && { append: [{ role: 'user', content: append }] }),
  };
  return { at: Number(form.get('at')), ...(Object.keys(edits).length > 0 && { edits }) };
}

function Cancel({ act }: { readonly act: Act }) {
  return (
    <Dialog
      title="Cancel the turn?"
      label="Cancel"
      submit="Cancel the turn"
      tone="bad"
      onSubmit={(form) => act('cancel', { reason: form.get('reason') || undefined })}
    >
      <label>
        Reason (optional)
        <input name="reason" type="text" autocomplete="off" />
      </label>
    </Dialog>
  );
}

/** Suggests the origin of a fork, and the forks of the turn. */
function Compare({ detail: { summary, forkedFrom, below } }: { readonly detail: TaskDetail }) {
  const near = [forkedFrom, ...below.filter(({ kind }) => kind !== 'child')].flatMap((turn) => turn?.taskId ?? []);
  return (
    <Dialog
      title="Compare with another turn"
      label="Compare"
      submit="Compare"
      onSubmit={async (form) => goTo(['compare', summary.taskId, String(form.get('with')).trim()])}
    >
      <label>
        Id of the other turn
        <input name="with" type="text" list="near" autocomplete="off" required value={near[0] ?? ''} />
      </label>
      <datalist id="near">
        {near.map((id) => (
          <option key={id} value={id} />
        ))}
      </datalist>
    </Dialog>
  );
}
