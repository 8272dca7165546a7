// Icons. They are hidden from screen readers: the surrounding button has a label.

const PATHS = {
  plus: 'M12 5v14M5 12h14',
  send: 'M12 19V5M6 11l6-6 6 6',
  stop: 'M8 8h8v8H8z',
  copy: 'M9 9h10v10H9zM5 15V5h10',
  check: 'M5 12.5l4.500 4.500L19 7.500',
  retry: 'M19 12a7 7 0 1 1-2.100-5M19 4v4h-4',
  edit: 'M5 19l1-4L16 5l3 3L9 18zM14 7l3 3',
  trash: 'M5 7h14M10 7V5h4v2M7 7l1 12h8l1-12',
  close: 'M6 6l12 12M18 6L6 18',
  menu: 'M4 7h16M4 12h16M4 17h16',
  search: 'M11 4a7 7 0 1 1 0 14 7 7 0 0 1 0-14zM16 16l4 4',
  graph: 'M6 4h5v5H6zM13 15h5v5h-5zM8.500 9v4.500q0 2 2 2H13',
  file: 'M7 3h7l4 4v14H7zM14 3v4h4',
  chat: 'M4 6.500A2.500 2.500 0 0 1 6.500 4h11A2.500 2.500 0 0 1 20 6.500v7a2.500 2.500 0 0 1-2.500 2.500H11l-5 4v-4.100a2.500 2.500 0 0 1-2-2.400z',
  gear: 'M12 9a3 3 0 1 1 0 6 3 3 0 0 1 0-6zM12 3v2.500M12 18.500V21M3 12h2.500M18.500 12H21M5.600 5.600l1.800 1.800M16.600 16.600l1.800 1.800M5.600 18.400l1.800-1.800M16.600 7.400l1.800-1.800',
  sliders: 'M4 7h10M18 7h2M16 5v4M4 17h2M10 17h10M8 15v4M4 12h6M14 12h6M12 10v4',
  clip: 'M19 11.500l-7.300 7.300a4.600 4.600 0 0 1-6.500-6.500l7.600-7.600a3.100 3.100 0 0 1 4.400 4.400l-7.500 7.500a1.500 1.500 0 0 1-2.200-2.200l6.800-6.800',
  pin: 'M9 4h6l-1 6 4 4H6l4-4zM12 14v6',
  thumb_up: 'M7 11v9H4v-9zM7 11l4-7a2 2 0 0 1 2 2v4h6l-1.500 8.500a1.500 1.500 0 0 1-1.500 1.500H7',
  thumb_down: 'M17 13V4h3v9zM17 13l-4 7a2 2 0 0 1-2-2v-4H5l1.500-8.500A1.500 1.500 0 0 1 8 4h9',
  chart: 'M4 20h16M7 16v-5M12 16V6M17 16v-8',
  chevron: 'M9 6l6 6-6 6',
  tool: 'M14.500 6.500a4 4 0 0 1 5-1l-2.700 2.700 1.500 1.500L21 7a4 4 0 0 1-5.300 4.700L8 19.500a2.100 2.100 0 0 1-3-3l7.700-7.700a4 4 0 0 1 1.800-2.300z',
  spark: 'M12 4l1.800 5.200L19 11l-5.200 1.800L12 18l-1.800-5.200L5 11l5.200-1.800z',
  pause: 'M9 6v12M15 6v12',
  play: 'M8 5l11 7-11 7z',
  upload: 'M12 16V5M7 10l5-5 5 5M5 19h14',
  download: 'M12 5v11M7 11l5 5 5-5M5 20h14',
  warn: 'M12 4l9 16H3zM12 10v4M12 17v.5',
  shield: 'M12 3l7 3v5c0 4.500-3 8-7 10-4-2-7-5.500-7-10V6z',
  quote: 'M5 17c3 0 4-2 4-5V7H4v5h3M14 17c3 0 4-2 4-5V7h-5v5h3',
  down: 'M12 5v14M6 13l6 6 6-6',
  arrow: 'M5 12h14M13 6l6 6-6 6',
  wide: 'M4 6h16v12H4zM8 12h8M10 10l-2 2 2 2M14 10l2 2-2 2',
  dock: 'M4 6h16v12H4zM14 6v12',
  link: 'M10 14a4 4 0 0 0 6 0l3-3a4 4 0 0 0-6-6l-1 1M14 10a4 4 0 0 0-6 0l-3 3a4 4 0 0 0 6 6l1-1',
  list: 'M8 6h12M8 12h12M8 18h12M4 6h.5M4 12h.5M4 18h.5',
  terminal: 'M4 5h16v14H4zM7 9l3 3-3 3M12 15h5',
  compare: 'M8 4v16M16 4v16M4 8h4M16 12h4M4 16h4',
  fork: 'M7 4v16M7 14c0-4 9-3 9-8M13 9l3-4 3 4',
} as const

export type IconName = keyof typeof PATHS

export function Icon({ name, size = 18 }: { name: IconName; size?: number }) {
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="1.7"
      stroke-linecap="round" stroke-linejoin="round" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  )
}

/** The logo: two people talking. */
export function Logo() {
  return (
    <svg class="logo" width="26" height="26" viewBox="0 0 32 32" aria-hidden="true" focusable="false">
      <rect class="logo-ground" width="32" height="32" rx="9" />
      <path class="logo-one" d="M7.500 13c0-3.300 3-5.500 6.400-5.500s6.300 2.200 6.300 5.300-2.800 5.300-6.300 5.300c-.8 0-1.500-.1-2.200-.3l-3.300 1.500.7-2.700A5 5 0 0 1 7.500 13z" />
      <path class="logo-two" d="M22.600 12.500c1.700.8 2.700 2.400 2.700 4.300 0 1.200-.5 2.300-1.300 3.200l.6 2.500-2.900-1.400c-.6.2-1.300.3-2 .3-2.200 0-4-.9-5-2.400" />
    </svg>
  )
}
