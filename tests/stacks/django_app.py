# SPDX-License-Identifier: Apache-2.0
"""Django in one file: gunicorn -w 2 django_app:app, with workers of the classes sync and gthread."""
import django
import work
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import JsonResponse
from django.urls import path

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="none")
django.setup()
urlpatterns = [path("order", lambda request: JsonResponse(work.order()))]
app = get_wsgi_application()
profiler = work.start()
