"""The pages: scripts that Streamlit runs.

Not named `pages`: before the first visit has drawn the navigation, Streamlit takes a folder of that
name for pages of its own and would run one of these scripts alone when a link leads straight to it.
"""
