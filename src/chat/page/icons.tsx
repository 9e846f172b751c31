import type { RefObject } from 'preact';

const paths = {
  plus: 'M12 5v14M5 12h14',
  menu: 'M4 7h16M4 12h16M4 17h16',
  copy: 'M9 9h10v10H9zM5 15V5h10',
  check: 'M5 12.5l4.5 4.5L19 7.5',
  cross: 'M6 6l12 12M18 6L6 18',
  up: 'M12 19V5M6 11l6-6 6 6',
  down: 'M12 5v14M6 13l6 6 6-6',
  chevron: 'M9 6l6 6-6 6',
  back: 'M15 6l-6 6 6 6',
  trash: 'M5 7h14M10 7V5h4v2M7 7l1 12h8l1-12',
  stop: 'M7.5 7.5h9v9h-9z',
  question: 'M9 9a3 3 0 1 1 4.2 2.7c-.8.4-1.2 1-1.2 2M12 17.2v.1',
  minus: 'M6 12h12',
  pen: 'M5 19l1-4L16 5l3 3L9 18zM14 7l3 3',
  again: 'M19 12a7 7 0 1 1-2-4.9M19 4v4h-4',
} as const;

export type IconName = keyof typeof paths;

/** Says nothing to screen readers: the words are beside it. */
export function Icon({ name }: { readonly name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true">
      <path d={paths[name]} />
    </svg>
  );
}

interface IconButtonProps {
  readonly name: IconName;
  readonly label: string;
  readonly onClick: () => void;
  readonly field?: RefObject<HTMLButtonElement | null>;
  readonly class?: string;
  readonly disabled?: boolean;
}

export function IconButton({ name, label, onClick, field, disabled, class: kind = 'icon-button' }: IconButtonProps) {
  const given = { onClick, class: kind, 'aria-disabled': disabled, title: label };
  return (
    <button {...(field && { ref: field })} {...given} type="button">
      <Icon name={name} />
      <span class="visually-hidden">{label}</span>
    </button>
  );
}
