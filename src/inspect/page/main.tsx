import { type ComponentChildren, options, render } from 'preact';
import { useEffect } from 'preact/hooks';
import { visibleText } from '../../ui/visible-text.ts';
import type { InspectInfo } from '../wire.ts';
import { takeToken } from './api.ts';
import { Compare } from './compare.tsx';
import { Fault, useApi } from './parts.tsx';
import { linkTo, usePlace } from './place.ts';
import { TaskList } from './task-list.tsx';
import { TaskView } from './task-view.tsx';
import './page.css';

function shownText(children: ComponentChildren): ComponentChildren {
  if (Array.isArray(children)) return children.map(shownText);
  return typeof children === 'string' ? visibleText(children) : children;
}

function Page() {
  const place = usePlace();
  const { data: info, error } = useApi<InspectInfo>('info');
  const [kind, id, other] = place.path;
  const shown = `${kind}/${id}/${other}`;
  // Another view begins at its top
  useEffect(() => scrollTo(0, 0), [shown]);
  return (
    <>
      <header class="top">
        <a href={linkTo([])}>Millrace</a>
        {info && (
          <span class="about">
            {info.write ? <span class="write">Can change turns</span> : <span>Read only</span>}
            {info.agentId !== undefined && <span>agent {info.agentId}</span>}
            {info.raw && <span class="bad">secrets are shown</span>}
          </span>
        )}
      </header>
      {!info && <Fault error={error} />}
      {info && kind === undefined && <TaskList place={place} />}
      {info && kind === 'task' && id !== undefined && <TaskView key={id} taskId={id} info={info} query={place.query} />}
      {info && kind === 'compare' && id !== undefined && other !== undefined && <Compare left={id} right={other} />}
    </>
  );
}

// Whatever component shows it: text cannot read as something else, as an argument of a call that is to be approved.
options.vnode = ({ type, props }) => {
  if (typeof type === 'string') props.children = shownText(props.children);
};
takeToken();
const root = document.querySelector('#page');
if (root) render(<Page />, root);
