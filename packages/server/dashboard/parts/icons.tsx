/** The logo, and line icons in the colour of the text next to them. */
import type { ComponentChildren, JSX } from "preact";

function Stroke({ children }: { readonly children: ComponentChildren }): JSX.Element {
  return (
    <svg class="icon" viewBox="0 0 20 20" aria-hidden="true" focusable="false">
      {children}
    </svg>
  );
}

/** The logo: the first time is solid, the second is only an outline. */
export function Mark(): JSX.Element {
  return (
    <svg class="mark" viewBox="0 0 32 32" aria-hidden="true" focusable="false">
      <rect class="mark-ground" width="32" height="32" rx="8" />
      <circle class="mark-second" cx="20" cy="16" r="6.5" />
      <circle class="mark-first" cx="12" cy="16" r="6.5" />
    </svg>
  );
}

export const ICONS = {
  overview: (
    <Stroke>
      <path d="M2.5 12.5h3l2.5-7 4 10 2.5-6h3" />
    </Stroke>
  ),
  keys: (
    <Stroke>
      <circle cx="6.5" cy="13.5" r="3.5" />
      <path d="m9 11 7.5-7.5M13.5 6.5l2.5 2.5" />
    </Stroke>
  ),
  unknown: (
    <Stroke>
      <path d="M3 11.5 5 4h10l2 7.5V16H3z" />
      <path d="M3 11.5h4l1 2h4l1-2h4" />
    </Stroke>
  ),
  holds: (
    <Stroke>
      <path d="M5.5 2.5h9M5.5 17.5h9M6.5 2.5v3.5l3.5 4 3.5-4V2.5M6.5 17.5V14l3.5-4 3.5 4v3.5" />
    </Stroke>
  ),
  outbox: (
    <Stroke>
      <path d="M17.5 2.5 2.5 8.5l6 3 3 6z" />
      <path d="m8.5 11.5 4-4" />
    </Stroke>
  ),
  pipelines: (
    <Stroke>
      <rect x="2.5" y="3" width="5" height="4.5" rx="1.2" />
      <rect x="12.5" y="3" width="5" height="4.5" rx="1.2" />
      <rect x="12.5" y="12.5" width="5" height="4.5" rx="1.2" />
      <path d="M7.5 5.2h5M7.5 5.2c3 0 2 9.5 5 9.5" />
    </Stroke>
  ),
  audit: (
    <Stroke>
      <path d="M10 2.5 16.5 5v4.5c0 4-2.7 6.7-6.5 8-3.8-1.3-6.5-4-6.5-8V5z" />
      <path d="m7.5 10 2 2 3.5-4" />
    </Stroke>
  ),
  yes: (
    <Stroke>
      <path d="m4.5 10.5 3.5 3.5 7.5-8" />
    </Stroke>
  ),
  no: (
    <Stroke>
      <path d="m5.5 5.5 9 9m0-9-9 9" />
    </Stroke>
  ),
  question: (
    <Stroke>
      <path d="M7.5 7.5a2.5 2.5 0 1 1 3.5 2.3c-.7.3-1 .8-1 1.7M10 14.5v.1" />
    </Stroke>
  ),
  light: (
    <Stroke>
      <circle cx="10" cy="10" r="3.3" />
      <path d="M10 2v1.5M10 16.5V18M2 10h1.5M16.5 10H18M4.3 4.3l1.1 1.1M14.6 14.6l1.1 1.1M4.3 15.7l1.1-1.1M14.6 5.4l1.1-1.1" />
    </Stroke>
  ),
  dark: (
    <Stroke>
      <path d="M16.5 11.7A6.8 6.8 0 0 1 8.3 3.5a6.8 6.8 0 1 0 8.2 8.2z" />
    </Stroke>
  ),
  system: (
    <Stroke>
      <rect x="2.5" y="3.5" width="15" height="10" rx="1.5" />
      <path d="M7 17h6M10 13.5V17" />
    </Stroke>
  ),
  search: (
    <Stroke>
      <circle cx="8.7" cy="8.7" r="5" />
      <path d="m12.5 12.5 4.5 4.5" />
    </Stroke>
  ),
  copy: (
    <Stroke>
      <rect x="7" y="7" width="9.5" height="9.5" rx="1.5" />
      <path d="M13 7V4.5A1 1 0 0 0 12 3.5H4.5a1 1 0 0 0-1 1V12a1 1 0 0 0 1 1H7" />
    </Stroke>
  ),
  back: (
    <Stroke>
      <path d="M12 4.5 6.5 10l5.5 5.5" />
    </Stroke>
  ),
  refresh: (
    <Stroke>
      <path d="M16 8.5A6.3 6.3 0 0 0 4.5 7M4 11.5A6.3 6.3 0 0 0 15.5 13M4.2 3.5V7h3.5M15.8 16.5V13h-3.5" />
    </Stroke>
  ),
  leave: (
    <Stroke>
      <path d="M8 3.5H4.5a1 1 0 0 0-1 1v11a1 1 0 0 0 1 1H8M12.5 6.5 16 10l-3.5 3.5M16 10H7.5" />
    </Stroke>
  ),
} as const;

export type IconName = keyof typeof ICONS;
