"""One file per page: `data(library, query)` gives what the page shows. See `trueloop.ui`."""
